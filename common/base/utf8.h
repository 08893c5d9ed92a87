// UTF-8 as Unicode 15 defines it (table 3-7): no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

struct Utf8Char {
  enum class Kind : std::uint8_t {
    kValid,
    kIncomplete,  // the text ends within what may become a character
    kInvalid,     // `length` bytes that no continuation can save (a maximal subpart, at least 1)
  };
  Kind kind;
  std::uint8_t length;
  char32_t code = 0;  // kValid only
};

// The character at `pos`. Requires: pos < text.size().
Utf8Char ScanUtf8(std::string_view text, std::size_t pos);

// Offset of the first byte that is not part of a whole, valid character.
std::optional<std::size_t> FindInvalidUtf8(std::string_view text);

// Requires: `code` is a scalar value.
void AppendUtf8(char32_t code, std::string& out);

}  // namespace tandem
