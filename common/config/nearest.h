// Names what a mistyped word was probably meant to be.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::config {

// The candidate with the smallest edit distance (insert, delete, replace, swap of neighbours; case
// counts half), when it is near enough to be meant: at most a third of the longer word, at least
// one edit.
std::optional<std::string> Nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

// "; did you mean 'X'?" or "".
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tandem::config
