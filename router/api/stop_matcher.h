// Finds the first stop string in a text that comes in pieces, and holds back what may become one.
//
// The result does not depend on how the text is cut: the match that is complete first wins; of
// those complete at the same byte, the longest. Time is linear in the text (Knuth-Morris-Pratt, one
// automaton a string). Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::router {

class StopMatcher {
 public:
  // Requires: no string is empty.
  explicit StopMatcher(const std::vector<std::string>& stops);

  // Appends to `out` the text that is certain to come before any match. Once a stop string is
  // complete, matched() is true and all that follows is dropped.
  void Append(std::string_view text, std::string& out);
  // The text ends without a match: appends what was held back.
  void Flush(std::string& out);

  bool matched() const { return matched_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<std::uint32_t> fallback;  // [text.size() + 1] longest proper border of each prefix
    std::uint32_t state = 0;              // bytes of `text` that the seen text ends with
  };

  std::vector<Pattern> patterns_;
  std::string held_;  // as many bytes as the largest state
  bool matched_ = false;
};

}  // namespace tandem::router
