// What Python's str does, over text with marks.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/marked_text.h"
#include "common/base/status.h"

namespace tandem::chat_template {

// str.isspace for one character.
bool IsPythonSpace(char32_t code);

// Where the text without its leading or trailing white space begins or ends.
std::size_t LeadingSpace(std::string_view text);
std::size_t TrailingSpace(std::string_view text);

enum class StripSide { kBoth, kLeft, kRight };
// Without `chars`: white space.
MarkedText Strip(const MarkedText& text, StripSide side, std::optional<std::string_view> chars);

// Without `separator`: at runs of white space, none at the ends. `max` < 0: no limit. Requires:
// separator is not empty.
std::vector<MarkedText> SplitText(const MarkedText& text, std::optional<std::string_view> separator,
                                  std::int64_t max);

// `count` < 0: all. Requires: `from` is not empty.
MarkedText Replace(const MarkedText& text, std::string_view from, const MarkedText& to,
                   std::int64_t count);

enum class LetterCase { kUpper, kLower, kTitle, kCapitalize };
// Errors: InvalidArgument if the text is not ASCII: Unicode's rules are not implemented.
StatusOr<MarkedText> ChangeCase(const MarkedText& text, LetterCase letter_case);

// Byte offset of each character, and the size at the end.
std::vector<std::size_t> CharacterOffsets(std::string_view text);
std::size_t CountCharacters(std::string_view text);

}  // namespace tandem::chat_template
