#include "router/api/stop_matcher.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::router {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    TANDEM_CHECK(!stop.empty());
    Pattern pattern{.text = stop, .fallback = std::vector<std::uint32_t>(stop.size() + 1, 0)};
    for (std::size_t i = 1; i < stop.size(); ++i) {
      std::uint32_t border = pattern.fallback[i];
      while (border > 0 && stop[border] != stop[i]) border = pattern.fallback[border];
      if (stop[border] == stop[i]) ++border;
      pattern.fallback[i + 1] = border;
    }
    patterns_.push_back(std::move(pattern));
  }
}

void StopMatcher::Append(std::string_view text, std::string& out) {
  if (matched_) return;
  if (patterns_.empty()) {
    out += text;
    return;
  }
  for (char c : text) {
    held_ += c;
    std::size_t longest_match = 0;
    for (Pattern& pattern : patterns_) {
      while (pattern.state > 0 && pattern.text[pattern.state] != c) {
        pattern.state = pattern.fallback[pattern.state];
      }
      if (pattern.text[pattern.state] == c) ++pattern.state;
      if (pattern.state == pattern.text.size()) {
        longest_match = std::max(longest_match, pattern.text.size());
      }
    }
    if (longest_match > 0) {
      matched_ = true;
      out.append(held_, 0, held_.size() - longest_match);
      held_.clear();
      return;
    }
  }
  std::size_t keep = 0;
  for (const Pattern& pattern : patterns_) keep = std::max<std::size_t>(keep, pattern.state);
  out.append(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
}

void StopMatcher::Flush(std::string& out) {
  if (!matched_) out += held_;
  held_.clear();
}

}  // namespace tandem::router
