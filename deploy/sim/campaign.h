// Many histories on a few threads, and what they came to.
//
// Run may be called from any thread; it returns when its threads have ended.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "deploy/sim/simulation.h"

namespace tandem::sim {

struct CampaignOptions {
  std::uint64_t first_seed = 1;
  std::uint64_t seeds = 1;
  int threads = 2;
  bool faults = true;            // false: the same histories undisturbed
  std::size_t failures_max = 3;  // after as many no further seed is begun
};

struct CampaignSummary {
  struct Failure {
    std::uint64_t seed = 0;
    std::string violation;
  };
  std::uint64_t histories = 0;
  std::uint64_t events = 0;
  std::uint64_t median_events = 0;  // per history
  Duration took{0};                 // wall clock
  // In virtual time, of each history's longest pause, less the time its prompt was computed and the
  // time no pair worked.
  Duration pause_median{0};
  Duration pause_p99{0};
  Duration pause_max{0};
  std::uint64_t pause_max_seed = 0;
  // The longest wait for a position while a pair worked and nothing went wrong, and the longest
  // time after the last end and fault until all was given back.
  Duration calm_wait_max{0};
  std::uint64_t calm_wait_seed = 0;
  Duration settled_max{0};
  std::uint64_t settled_seed = 0;
  std::array<std::int64_t, kFaultKinds> faults{};
  std::int64_t done = 0;
  std::int64_t cancelled = 0;
  std::int64_t failed = 0;
  std::int64_t cut = 0;
  std::int64_t attempts = 0;
  std::int64_t placed_again = 0;
  std::int64_t repeats = 0;
  std::int64_t repeats_different = 0;
  std::vector<Failure> failures;  // by seed

  double events_per_second() const {
    return static_cast<double>(events) / std::max(ToSeconds(took), 1e-9);
  }
  // A few lines for the terminal.
  std::string ToString() const;
};

// `progress` is called now and then, from any of the threads, with how many histories are through.
CampaignSummary RunCampaign(const CampaignOptions& options,
                            const std::function<void(std::uint64_t)>& progress = nullptr);

// The history of `options`, run again with a trace and shrunk: what a person wants to see of it.
// Requires: Simulate(options) breaks.
std::string DescribeFailure(const SimOptions& options);

}  // namespace tandem::sim
