// Finds added tokens in text: leftmost, then longest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/tokenizer/tokenizer_data.h"

namespace tandem::tokenizer {

// Immutable. A byte trie; O(text · longest token) at worst.
class AddedTokenMatcher {
 public:
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  struct Match {
    std::size_t begin;
    std::size_t end;
    TokenId id;
  };
  // Whether this token may be matched at [begin, end) of the text.
  using Allow = std::function<bool(const AddedToken&, std::size_t begin, std::size_t end)>;
  // The matches, in order and apart, with the white space that they take. Requires: `text` is
  // UTF-8.
  std::vector<Match> FindAll(std::string_view text, const Allow& allow) const;

  bool empty() const { return tokens_.empty(); }

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> children;  // ascending
    std::int32_t token = -1;                                        // index in tokens_
  };

  const AddedToken* LongestAt(std::string_view text, std::size_t pos, const Allow& allow) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;  // [0] is the root
  bool first_byte_[256] = {};
};

}  // namespace tandem::tokenizer
