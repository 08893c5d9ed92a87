// What PrefillCore counts of itself.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/kv/block_counts.h"
#include "common/scheduler/step_time.h"

namespace tandem::prefill_node {

// All but the first block zero (and `blocks.used`, `blocks.quarantined`) when nothing is left to
// do.
struct PrefillStats {
  kv::BlockCounts blocks;
  std::int32_t routers = 0;
  std::int32_t sinks = 0;
  std::int32_t usable_sinks = 0;
  std::int32_t lost_sinks = 0;  // remembered: they may come back, or writes are outstanding

  std::int32_t tasks = 0;         // all unfinished
  std::int32_t queued = 0;        // not yet in a batch
  std::int32_t waiting_room = 0;  // computed or computing, every sink was full
  std::int32_t placements = 0;    // live
  std::int32_t draining = 0;      // placements with writes outstanding after their end
  std::int32_t leases = 0;
  std::int64_t outstanding_bytes = 0;

  std::int64_t accepted = 0;
  std::int64_t refused = 0;
  std::int64_t joined = 0;
  std::int64_t failed = 0;
  std::int64_t cancelled = 0;
  std::int64_t placed_again = 0;  // placements after the first of an attempt
  std::int64_t leases_expired = 0;
  std::int64_t computed_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t pushed_bytes = 0;
  std::int64_t held_blocks = 0;  // not sent, the sink had them
  std::int64_t stale_messages = 0;

  std::int64_t step_tokens = 0;              // that the next step may have
  scheduler::StepTimeFit::Quality step_fit;  // tokens, token pairs
  scheduler::StepTimeFit::Quality link_fit;  // of transfers to sinks: writes, bytes

  // Those that only grow, by the names of their metrics.
  struct Counter {
    std::string_view name;
    std::int64_t PrefillStats::*value;
  };
  static std::span<const Counter> Counters();
  // Adds the counters of another node, or of another life of this one.
  void AddCounters(const PrefillStats& other);
};

}  // namespace tandem::prefill_node
