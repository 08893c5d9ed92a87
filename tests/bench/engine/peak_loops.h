// Loops of one instruction on registers, as many independent chains as hide its latency.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem::bench {

struct PeakLoop {
  std::string_view name;
  std::int64_t ops_per_iteration;  // a multiply-add is two
  void (*run)(std::int64_t iterations);
};

// Those that this CPU and kernel run. A loop may be called on any thread.
std::vector<PeakLoop> PeakLoops();

}  // namespace tandem::bench
