// A length in tokens that is drawn uniformly: "128" or "20-200".
#pragma once

#include <cstdint>
#include <string>

#include "common/base/random.h"
#include "common/config/program_options.h"

namespace tandem::deploy {

struct LengthRange {
  std::int64_t low = 0;  // 0: not given
  std::int64_t high = 0;

  bool given() const { return high > 0; }
  std::int64_t Draw(SplitMix64& random) const;
  std::string ToString() const;
};

// A flag's value; both ends in lowest..highest.
config::Value Lengths(LengthRange* into, std::int64_t lowest, std::int64_t highest);

}  // namespace tandem::deploy
