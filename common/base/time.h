// Time as pure code sees it: a value that an event carries. Production fills it from the steady
// clock, the simulator from its own. A Deadline is a point to finish by, made once at the edge and
// never extended; the wire carries the remaining budget, never another host's clock.
#pragma once

#include <algorithm>
#include <chrono>

namespace tandem {

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline constexpr Time kNever = Time::max();

// The steady clock; only shells call it.
inline Time SteadyNow() { return std::chrono::steady_clock::now(); }

class Deadline {
 public:
  constexpr Deadline() = default;  // never
  constexpr explicit Deadline(Time at) : at_(at) {}
  static constexpr Deadline After(Time now, Duration budget) { return Deadline(now + budget); }

  constexpr Time at() const { return at_; }
  constexpr bool Passed(Time now) const { return now >= at_; }
  // Never negative. Requires: not "never".
  constexpr Duration Remaining(Time now) const { return std::max(at_ - now, Duration::zero()); }

 private:
  Time at_ = kNever;
};

constexpr double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }
constexpr double ToMillis(Duration d) { return ToSeconds(d) * 1e3; }

}  // namespace tandem
