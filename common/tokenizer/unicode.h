// Unicode properties and normal forms (utf8proc's tables).
#pragma once

#include <string>
#include <string_view>

#include "common/tokenizer/tokenizer_data.h"

namespace tandem::tokenizer {

// White_Space.
bool IsSpace(char32_t code);
// Letters, marks, numbers and connecting punctuation: a regular expression's \w.
bool IsWordCharacter(char32_t code);

// `text` in the normal form, in O(n log n) even for endless runs of combining marks. Requires:
// `text` is UTF-8.
std::string Normalize(std::string_view text, UnicodeForm form);

}  // namespace tandem::tokenizer
