// What this machine can do at most: bytes read and bare multiply-adds, on the threads of a
// benchmark. Shares of these say how far a kernel is from the hardware.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::bench {

// One kind of multiply-add, fed from registers alone.
struct Peak {
  std::string name;   // "int8 vnni"
  double giga_ops_s;  // a multiply-add is two; all threads together
};

struct Ceiling {
  double read_gb_s = 0;  // a plain loop over `read_bytes`, all threads together
  std::int64_t read_bytes = 0;
  std::vector<Peak> peaks;  // those that this CPU has
};

// Takes about a second. `read_bytes`: the size of the set that is read again and again, each thread
// its part; the weights' size tells what caches give it. Best of several rounds.
// Requires: read_bytes >= 1 MB, threads >= 1. Errors: ResourceExhausted.
StatusOr<Ceiling> MeasureCeiling(std::int64_t read_bytes, int threads);

// The multiply-add that a numerics class spends its time on: a name in Ceiling::peaks, or "" for
// the scalar class.
std::string_view PeakOf(std::string_view numerics_class);

}  // namespace tandem::bench
