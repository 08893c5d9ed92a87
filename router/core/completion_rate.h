// How many requests end per second, lately: older ends fade with a time constant of 10 s. Pure.
#pragma once

#include <algorithm>
#include <cmath>

#include "common/base/time.h"

namespace tandem::router {

class CompletionRate {
 public:
  void Observe(Time now) {
    if (count_ == 0 && began_ == Time{}) began_ = now;
    count_ = Faded(now) + 1;
    last_ = now;
  }
  // Zero: nothing ended lately.
  double PerSecond(Time now) const {
    if (count_ == 0) return 0;
    // Less time than the constant has been seen: what has faded in is that much less, too.
    const double seen = std::max(ToSeconds(now - began_), 1.0);
    const double rate = Faded(now) / (kSeconds * (1 - std::exp(-seen / kSeconds)));
    return rate < 1e-3 ? 0 : rate;
  }

 private:
  static constexpr double kSeconds = 10;
  double Faded(Time now) const {
    return count_ == 0 ? 0 : count_ * std::exp(-ToSeconds(now - last_) / kSeconds);
  }

  double count_ = 0;  // as of last_
  Time last_{};
  Time began_{};
};

}  // namespace tandem::router
