// How long streams pause because of a fault: many histories with one fault each, all of one kind,
// while streams run. So every pause has its cause.
//
// A pause counts without the time its prompt was computed again, and without the time in which no
// pair worked. StudyPauses may be called from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"
#include "common/base/time.h"
#include "deploy/sim/simulation.h"

namespace tandem::sim {

struct PauseKind {
  std::string_view name;
  Duration aim{0};         // for the 99th percentile; 0: none
  std::int32_t nodes = 2;  // of each role
  // The fault, at a time still to be drawn.
  Fault (*draw)(SplitMix64& random);
};
std::span<const PauseKind> PauseKinds();

struct PauseSummary {
  std::string_view kind;
  Duration aim{0};
  std::uint64_t histories = 0;
  std::int64_t streams = 0;  // all of them
  std::int64_t failed = 0;   // with an error
  std::int64_t paused = 0;   // that had to wait
  Duration p50{0};           // of these
  Duration p99{0};
  Duration max{0};
  std::uint64_t max_seed = 0;
  Duration whole_max{0};  // nothing taken off
  std::vector<std::string> violations;

  bool ok() const {
    return violations.empty() && failed == 0 && (aim == Duration(0) || p99 <= aim);
  }
};

// The history of a seed under one fault of this kind.
SimOptions PauseHistory(const PauseKind& kind, std::uint64_t seed);
PauseSummary StudyPauses(const PauseKind& kind, std::uint64_t first_seed, std::uint64_t seeds);
// A table for the terminal.
std::string ToString(std::span<const PauseSummary> rows);

}  // namespace tandem::sim
