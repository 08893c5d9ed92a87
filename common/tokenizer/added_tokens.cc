#include "common/tokenizer/added_tokens.h"

#include <algorithm>

#include "common/base/utf8.h"
#include "common/tokenizer/unicode.h"

namespace tandem::tokenizer {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Start of the character that ends at `end`. Requires: end > 0.
std::size_t CharacterBefore(std::string_view text, std::size_t end) {
  do {
    --end;
  } while (end > 0 && IsContinuation(text[end]));
  return end;
}

bool WordBefore(std::string_view text, std::size_t pos) {
  return pos > 0 && IsWordCharacter(ScanUtf8(text, CharacterBefore(text, pos)).code);
}

bool WordAfter(std::string_view text, std::size_t pos) {
  return pos < text.size() && IsWordCharacter(ScanUtf8(text, pos).code);
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), nodes_(1) {
  for (std::size_t t = 0; t < tokens_.size(); ++t) {
    std::uint32_t node = 0;
    for (char c : tokens_[t].content) {
      const auto byte = static_cast<unsigned char>(c);
      auto& children = nodes_[node].children;
      auto it = std::lower_bound(children.begin(), children.end(), std::pair{byte, 0u});
      if (it == children.end() || it->first != byte) {
        const auto child = static_cast<std::uint32_t>(nodes_.size());
        children.insert(it, {byte, child});
        nodes_.emplace_back();
        node = child;
      } else {
        node = it->second;
      }
    }
    if (node == 0) continue;
    first_byte_[static_cast<unsigned char>(tokens_[t].content[0])] = true;
    if (nodes_[node].token < 0) nodes_[node].token = static_cast<std::int32_t>(t);
  }
}

const AddedToken* AddedTokenMatcher::LongestAt(std::string_view text, std::size_t pos,
                                               const Allow& allow) const {
  const AddedToken* best = nullptr;
  std::uint32_t node = 0;
  for (std::size_t i = pos; i < text.size(); ++i) {
    const auto& children = nodes_[node].children;
    const auto byte = static_cast<unsigned char>(text[i]);
    auto it = std::lower_bound(children.begin(), children.end(), std::pair{byte, 0u});
    if (it == children.end() || it->first != byte) break;
    node = it->second;
    if (nodes_[node].token < 0) continue;
    const AddedToken& token = tokens_[static_cast<std::size_t>(nodes_[node].token)];
    if (token.single_word && (WordBefore(text, pos) || WordAfter(text, i + 1))) continue;
    if (allow(token, pos, i + 1)) best = &token;
  }
  return best;
}

std::vector<AddedTokenMatcher::Match> AddedTokenMatcher::FindAll(std::string_view text,
                                                                 const Allow& allow) const {
  std::vector<Match> matches;
  if (tokens_.empty()) return matches;
  std::size_t free = 0;  // all before it is taken
  for (std::size_t pos = 0; pos < text.size();) {
    if (!first_byte_[static_cast<unsigned char>(text[pos])]) {
      ++pos;
      continue;
    }
    const AddedToken* token = LongestAt(text, pos, allow);
    if (token == nullptr) {
      ++pos;
      continue;
    }
    std::size_t begin = pos;
    std::size_t end = pos + token->content.size();
    if (token->lstrip) {
      while (begin > free) {
        const std::size_t before = CharacterBefore(text, begin);
        if (!IsSpace(ScanUtf8(text, before).code)) break;
        begin = before;
      }
    }
    if (token->rstrip) {
      while (end < text.size()) {
        const Utf8Char c = ScanUtf8(text, end);
        if (!IsSpace(c.code)) break;
        end += c.length;
      }
    }
    matches.push_back({begin, end, token->id});
    pos = free = end;
  }
  return matches;
}

}  // namespace tandem::tokenizer
