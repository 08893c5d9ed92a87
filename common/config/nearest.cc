#include "common/config/nearest.h"

#include <algorithm>
#include <cctype>

namespace tandem::config {
namespace {

// Costs are times four, so that a difference in case can count a quarter.
constexpr int kEdit = 4;
constexpr std::size_t kLongest = 256;

int ReplaceCost(char a, char b) {
  if (a == b) return 0;
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return lower(a) == lower(b) ? kEdit / 4 : kEdit;
}

// Optimal string alignment distance (Damerau 1964, Levenshtein 1966), times kEdit.
int Distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<int> table((a.size() + 1) * width);
  for (std::size_t i = 0; i <= a.size(); ++i) table[i * width] = static_cast<int>(i) * kEdit;
  for (std::size_t j = 0; j <= b.size(); ++j) table[j] = static_cast<int>(j) * kEdit;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      int best = table[(i - 1) * width + j - 1] + ReplaceCost(a[i - 1], b[j - 1]);
      best = std::min(best, table[(i - 1) * width + j] + kEdit);
      best = std::min(best, table[i * width + j - 1] + kEdit);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        best = std::min(best, table[(i - 2) * width + j - 2] + kEdit);
      }
      table[i * width + j] = best;
    }
  }
  return table.back();
}

}  // namespace

std::optional<std::string> Nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  if (word.size() > kLongest) return std::nullopt;
  std::optional<std::string> best;
  int best_distance = 0;
  for (const std::string& candidate : candidates) {
    const int distance = Distance(word, candidate);
    const int allowed =
        std::max(kEdit, kEdit * static_cast<int>(std::max(word.size(), candidate.size())) / 3);
    if (distance <= allowed && (!best || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto nearest = Nearest(word, candidates);
  return nearest ? "; did you mean '" + *nearest + "'?" : "";
}

}  // namespace tandem::config
