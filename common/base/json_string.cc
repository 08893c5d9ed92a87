#include "common/base/json_string.h"

#include <fmt/format.h>

#include <iterator>

namespace tandem {
namespace {

// The short form of an escaped character; 0: it has none.
char ShortEscape(char c) {
  switch (c) {
    case '"':
    case '\\':
      return c;
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    case '\f':
      return 'f';
    case '\b':
      return 'b';
    default:
      return 0;
  }
}

}  // namespace

void AppendJsonString(std::string_view text, std::string& out) {
  out += '"';
  std::size_t plain = 0;  // first byte not yet copied
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, plain, i - plain);
    plain = i + 1;
    if (const char escape = ShortEscape(c)) {
      out += '\\';
      out += escape;
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    }
  }
  out.append(text, plain, text.size() - plain);
  out += '"';
}

std::string JsonString(std::string_view text) {
  std::string out;
  AppendJsonString(text, out);
  return out;
}

}  // namespace tandem
