// How many requests a prefill node can give their first token per second, at most, by what it did
// while it had more to do than it could: from that follows how long a further request waits there
// at least.
//
// Nothing is said of a node that was not kept busy: what it did then says how much was asked of it,
// not what it can. Busy it was since the median of those that wait was sent there: half of them
// have waited all that time. The rate is an upper bound (two standard deviations of a count above
// what was counted), so the wait is a lower one.
//
// Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "common/base/time.h"

namespace tandem::router {

class StartForecast {
 public:
  // A node that has been busy for less is not judged.
  static constexpr Duration kWatched = std::chrono::seconds(5);

  // Request `number` was sent to the node and waits for its first token.
  void Sent(std::uint64_t number, Time now);
  // It has its token, or waits there no more. Unknown ones are ignored.
  void Left(std::uint64_t number, Time now);

  std::size_t waiting() const { return waiting_.size(); }
  std::optional<double> PerSecondMost(Time now) const;

 private:
  static constexpr Duration kSlot = std::chrono::milliseconds(500);
  static constexpr Duration kRemembered = std::chrono::seconds(30);
  struct Slot {
    Time begin{};
    std::int64_t left = 0;  // how many left in it
  };

  std::map<std::uint64_t, Time> waiting_;  // since when
  std::deque<Slot> slots_;                 // ascending; as many as kRemembered has, at most
};

}  // namespace tandem::router
