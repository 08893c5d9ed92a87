#include "common/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "common/base/utf8.h"

namespace tandem::tokenizer {
namespace {

int CombiningClass(utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; }

// Every character below U+0300 is its own NFC; so a text of them is in that form already.
bool IsTriviallyNormal(std::string_view text, UnicodeForm form) {
  if (form == UnicodeForm::kNone) return true;
  const unsigned char limit = form == UnicodeForm::kNfc ? 0xCC : 0x80;  // U+0300 is CC 80
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return static_cast<unsigned char>(c) < limit; });
}

}  // namespace

bool IsSpace(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool IsWordCharacter(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

std::string Normalize(std::string_view text, UnicodeForm form) {
  if (IsTriviallyNormal(text, form)) return std::string(text);
  const bool compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  const bool compose = form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
  const int options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0);

  // utf8proc_map would order combining marks by exchanging neighbours, which is quadratic; hence
  // the stable sort.
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size());
  for (std::size_t pos = 0; pos < text.size();) {
    const Utf8Char c = ScanUtf8(text, pos);
    pos += c.length;
    utf8proc_int32_t buffer[32];  // the longest decomposition has 18 characters
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code), buffer, 32,
                                static_cast<utf8proc_option_t>(options), &boundary);
    codes.insert(codes.end(), buffer, buffer + std::clamp<utf8proc_ssize_t>(count, 0, 32));
  }
  for (auto it = codes.begin(); it != codes.end();) {
    if (CombiningClass(*it) == 0) {
      ++it;
      continue;
    }
    auto end = std::find_if(it, codes.end(), [](auto code) { return CombiningClass(code) == 0; });
    std::stable_sort(it, end, [](auto a, auto b) { return CombiningClass(a) < CombiningClass(b); });
    it = end;
  }
  auto length = static_cast<utf8proc_ssize_t>(codes.size());
  if (compose) {
    length = utf8proc_normalize_utf32(
        codes.data(), length, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  }
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < length; ++i) AppendUtf8(static_cast<char32_t>(codes[i]), out);
  return out;
}

}  // namespace tandem::tokenizer
