#include "common/base/utf8.h"

#include <cstring>

namespace tandem {

Utf8Char ScanUtf8(std::string_view text, std::size_t pos) {
  using Kind = Utf8Char::Kind;
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[pos + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {Kind::kValid, 1, first};
  // The second byte's range is narrower after E0, ED, F0 and F4.
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  std::uint8_t length = 0;
  char32_t code = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
    code = first & 0x1Fu;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    code = first & 0x0Fu;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    code = first & 0x07u;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {Kind::kInvalid, 1};
  }
  for (std::uint8_t i = 1; i < length; ++i) {
    if (pos + i >= text.size()) return {Kind::kIncomplete, i};
    if (byte(i) < low || byte(i) > high) return {Kind::kInvalid, i};
    code = (code << 6) | (byte(i) & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {Kind::kValid, length, code};
}

std::optional<std::size_t> FindInvalidUtf8(std::string_view text) {
  std::size_t pos = 0;
  while (pos < text.size()) {
    std::uint64_t word = 0;
    if (pos + sizeof word <= text.size()) {
      std::memcpy(&word, text.data() + pos, sizeof word);
      if ((word & 0x8080808080808080u) == 0) {
        pos += sizeof word;
        continue;
      }
    }
    const Utf8Char c = ScanUtf8(text, pos);
    if (c.kind != Utf8Char::Kind::kValid) return pos;
    pos += c.length;
  }
  return std::nullopt;
}

void AppendUtf8(char32_t code, std::string& out) {
  auto put = [&](char32_t bits) { out.push_back(static_cast<char>(bits)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

}  // namespace tandem
