#include "deploy/sim/world.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::sim {

void World::AddTrace(std::string_view line) {
  std::string text =
      fmt::format("{:>10} {:>12.6f} s  {}", loop.count(), ToSeconds(loop.now() - Time{}), line);
  if (trace_.size() < trace_lines_) {
    trace_.push_back(std::move(text));
    return;
  }
  trace_[trace_next_] = std::move(text);
  trace_next_ = (trace_next_ + 1) % trace_lines_;
}

std::vector<std::string> World::TakeTrace() {
  std::rotate(trace_.begin(), trace_.begin() + static_cast<std::ptrdiff_t>(trace_next_),
              trace_.end());
  trace_next_ = 0;
  return std::exchange(trace_, {});
}

}  // namespace tandem::sim
