#include "deploy/sim/simulation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "deploy/sim/cluster.h"

namespace tandem::sim {

SimReport Simulate(const SimOptions& options) { return Cluster(options).Run(); }

SimOptions DrawHistory(std::uint64_t seed) {
  SplitMix64 random(Mix64(seed) ^ 0xfa017);
  SimOptions options;
  options.seed = seed;
  options.requests = 3 + static_cast<std::int32_t>(random.Below(10));
  options.prefill_nodes = random.Below(5) == 0 ? 1 : 2;
  options.decode_nodes = random.Below(5) == 0 ? 1 : 2;
  options.proof = random.Below(2) == 0 ? handoff::Proof::kWriter : handoff::Proof::kReceives;
  options.num_layers = 2;
  options.prefill_blocks = options.decode_blocks = 24 + static_cast<std::int32_t>(random.Below(41));
  options.prompt_max = 120;
  options.output_max = 60;
  constexpr std::array kArrivals = {40, 40, 300, 1500, 4000};
  options.arrivals = std::chrono::milliseconds(kArrivals[random.Below(kArrivals.size())]);
  options.cancel_percent = 8;
  options.short_deadline_percent = 5;
  if (random.Below(4) == 0) options.link.bytes_per_second = 2e7;  // long writes
  FaultDraw draw;
  draw.prefill_nodes = options.prefill_nodes;
  draw.decode_nodes = options.decode_nodes;
  draw.requests = options.requests;
  draw.arrivals = options.arrivals;
  options.faults = DrawFaultPlan(random, draw);
  const bool small = std::any_of(options.faults.begin(), options.faults.end(),
                                 [](const Fault& f) { return f.kind == FaultKind::kFewBlocks; });
  // Beyond the credit window, within every node's context.
  if (!small && options.decode_blocks >= 36 && random.Below(6) == 0) options.output_max = 400;
  return options;
}

namespace {

bool Breaks(const SimOptions& options) { return !Simulate(options).ok(); }

// Tries a simpler plan; keeps it when the history still breaks.
template <typename Change>
bool Try(SimOptions& options, Change&& change) {
  SimOptions simpler = options;
  change(simpler);
  if (simpler.faults == options.faults && simpler.requests == options.requests) return false;
  if (!Breaks(simpler)) return false;
  options = std::move(simpler);
  return true;
}

}  // namespace

SimOptions Shrink(SimOptions options) {
  options.trace_lines = 0;
  bool again = true;
  while (again) {
    again = false;
    for (std::size_t i = options.faults.size(); i-- > 0;) {
      again |= Try(options, [&](SimOptions& simpler) {
        simpler.faults.erase(simpler.faults.begin() + static_cast<std::ptrdiff_t>(i));
      });
    }
  }
  for (std::size_t i = 0; i < options.faults.size(); ++i) {
    while (options.faults[i].length > std::chrono::milliseconds(2) &&
           Try(options, [&](SimOptions& simpler) { simpler.faults[i].length /= 2; })) {
    }
    while (options.faults[i].count > 1 &&
           Try(options, [&](SimOptions& simpler) { simpler.faults[i].count /= 2; })) {
    }
  }
  while (options.requests > 1 && Try(options, [](SimOptions& simpler) { --simpler.requests; })) {
  }
  return options;
}

}  // namespace tandem::sim
