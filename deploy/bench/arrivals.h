// When the requests of an open loop are sent: a function of kind, rate and seed alone.
#pragma once

#include <cstdint>

#include "common/base/random.h"
#include "common/base/time.h"

namespace tandem::deploy {

class Arrivals {
 public:
  enum class Kind {
    kPoisson,   // independent gaps, exponential, of mean 1/rate
    kConstant,  // every 1/rate, the first at once
  };
  // Requires: rate_per_s > 0.
  Arrivals(Kind kind, double rate_per_s, std::uint64_t seed);

  // The next request's time since the start. Never decreases.
  Duration Next();

 private:
  Kind kind_;
  double rate_per_s_;
  SplitMix64 random_;
  double at_s_ = 0;         // of the last one
  std::int64_t count_ = 0;  // given so far
};

}  // namespace tandem::deploy
