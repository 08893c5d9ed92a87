#include "deploy/bench/arrivals.h"

#include <cmath>

#include "common/base/check.h"

namespace tandem::deploy {

Arrivals::Arrivals(Kind kind, double rate_per_s, std::uint64_t seed)
    : kind_(kind), rate_per_s_(rate_per_s), random_(seed) {
  TANDEM_CHECK(rate_per_s > 0);
}

Duration Arrivals::Next() {
  if (kind_ == Kind::kConstant) {
    at_s_ = static_cast<double>(count_) / rate_per_s_;  // not a sum: no error builds up
  } else {
    at_s_ += -std::log1p(-random_.Unit()) / rate_per_s_;
  }
  ++count_;
  return Duration(static_cast<std::int64_t>(at_s_ * 1e9));
}

}  // namespace tandem::deploy
