#include "common/template/python_text.h"

#include <algorithm>

#include "common/base/utf8.h"

namespace tandem::chat_template {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The character that ends at `end`, with its start. Requires: end > 0.
std::pair<std::size_t, char32_t> CharacterBefore(std::string_view text, std::size_t end) {
  std::size_t start = end - 1;
  while (start > 0 && IsContinuation(text[start])) --start;
  return {start, ScanUtf8(text, start).code};
}

// Length of the part of `text` at which `skip` holds, from the left.
template <typename Skip>
std::size_t SkipLeft(std::string_view text, Skip skip) {
  std::size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Char c = ScanUtf8(text, pos);
    if (!skip(c.code)) break;
    pos += c.length;
  }
  return pos;
}

template <typename Skip>
std::size_t SkipRight(std::string_view text, Skip skip) {
  std::size_t end = text.size();
  while (end > 0) {
    const auto [start, code] = CharacterBefore(text, end);
    if (!skip(code)) break;
    end = start;
  }
  return end;
}

}  // namespace

bool IsPythonSpace(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

std::size_t LeadingSpace(std::string_view text) { return SkipLeft(text, IsPythonSpace); }
std::size_t TrailingSpace(std::string_view text) { return SkipRight(text, IsPythonSpace); }

MarkedText Strip(const MarkedText& text, StripSide side, std::optional<std::string_view> chars) {
  auto skip = [&](char32_t code) {
    if (!chars) return IsPythonSpace(code);
    std::string character;
    AppendUtf8(code, character);
    return chars->find(character) != chars->npos;
  };
  const std::string_view all = text.text();
  const std::size_t begin = side == StripSide::kRight ? 0 : SkipLeft(all, skip);
  const std::size_t end = side == StripSide::kLeft ? all.size() : SkipRight(all, skip);
  return text.Substr(begin, std::max(begin, end));
}

std::vector<MarkedText> SplitText(const MarkedText& text, std::optional<std::string_view> separator,
                                  std::int64_t max) {
  std::vector<MarkedText> parts;
  const std::string_view all = text.text();
  const auto may_split = [&] { return max < 0 || static_cast<std::int64_t>(parts.size()) < max; };
  if (separator) {
    std::size_t pos = 0;
    while (may_split()) {
      const std::size_t found = all.find(*separator, pos);
      if (found == all.npos) break;
      parts.push_back(text.Substr(pos, found));
      pos = found + separator->size();
    }
    parts.push_back(text.Substr(pos, all.size()));
    return parts;
  }
  std::size_t pos = LeadingSpace(all);
  while (pos < all.size()) {
    if (!may_split()) {
      parts.push_back(text.Substr(pos, TrailingSpace(all)));
      break;
    }
    const std::size_t end =
        pos + SkipLeft(all.substr(pos), [](char32_t code) { return !IsPythonSpace(code); });
    parts.push_back(text.Substr(pos, end));
    pos = end + LeadingSpace(all.substr(end));
  }
  return parts;
}

MarkedText Replace(const MarkedText& text, std::string_view from, const MarkedText& to,
                   std::int64_t count) {
  MarkedText out;
  const std::string_view all = text.text();
  std::size_t pos = 0;
  while (count != 0) {
    const std::size_t found = all.find(from, pos);
    if (found == all.npos) break;
    out += text.Substr(pos, found);
    out += to;
    pos = found + from.size();
    if (count > 0) --count;
  }
  return out += text.Substr(pos, all.size());
}

StatusOr<MarkedText> ChangeCase(const MarkedText& text, LetterCase letter_case) {
  std::string changed = text.text();
  bool in_word = false;
  for (std::size_t i = 0; i < changed.size(); ++i) {
    char& c = changed[i];
    if (static_cast<unsigned char>(c) >= 0x80) {
      return InvalidArgument("changing the case of text beyond ASCII is not supported");
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool upper = letter_case == LetterCase::kUpper ||
                       (letter_case == LetterCase::kTitle && !in_word) ||
                       (letter_case == LetterCase::kCapitalize && i == 0);
    in_word = letter;
    if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (!upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  MarkedText out;
  std::size_t pos = 0;
  for (const MarkedText::Range& range : text.user_ranges()) {
    out += MarkedText::Trusted(changed.substr(pos, range.begin - pos));
    out += MarkedText::FromUser(changed.substr(range.begin, range.end - range.begin));
    pos = range.end;
  }
  return out += MarkedText::Trusted(changed.substr(pos));
}

std::vector<std::size_t> CharacterOffsets(std::string_view text) {
  std::vector<std::size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (std::size_t pos = 0; pos < text.size(); pos += ScanUtf8(text, pos).length) {
    offsets.push_back(pos);
  }
  offsets.push_back(text.size());
  return offsets;
}

std::size_t CountCharacters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

}  // namespace tandem::chat_template
