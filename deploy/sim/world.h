// What all parts of one history share: clock, random numbers, the first broken rule, the trace.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/base/time.h"
#include "deploy/sim/event_loop.h"

namespace tandem::sim {

class World {
 public:
  World(std::uint64_t seed, std::size_t trace_lines) : random(seed), trace_lines_(trace_lines) {}

  Duration Jitter(Duration most) {
    return Duration(
        static_cast<std::int64_t>(random.Below(static_cast<std::uint64_t>(most.count()) + 1)));
  }
  bool Chance(std::uint64_t one_in) { return random.Below(one_in) == 0; }

  // The first broken rule ends the history.
  void Violate(std::string what) {
    if (violation.empty()) violation = std::move(what);
  }

  // A worker has died of computing a poison request.
  void PoisonKilled() {
    if (++poison_kills_ > poison_kills_max) {
      Violate("poison requests killed " + std::to_string(poison_kills_) + " workers");
    }
  }

  // `line` is only asked for while somebody wants the trace.
  template <typename Line>
  void Trace(Line&& line) {
    if (trace_lines_ > 0) AddTrace(line());
  }
  // The last lines, oldest first.
  std::vector<std::string> TakeTrace();

  EventLoop loop;
  SplitMix64 random;
  std::string violation;
  std::int32_t poison_kills() const { return poison_kills_; }
  std::int32_t poison_kills_max = 0;

 private:
  void AddTrace(std::string_view line);

  std::int32_t poison_kills_ = 0;
  const std::size_t trace_lines_;
  std::size_t trace_next_ = 0;
  std::vector<std::string> trace_;  // a ring
};

}  // namespace tandem::sim
