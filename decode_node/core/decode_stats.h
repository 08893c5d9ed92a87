// What DecodeCore counts of itself.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/kv/block_counts.h"
#include "common/scheduler/step_time.h"

namespace tandem::decode_node {

// All but the first block zero (and `blocks.used`, `blocks.quarantined`) when nothing is left to
// do.
struct DecodeStats {
  kv::BlockCounts blocks;
  std::int32_t routers = 0;
  std::int32_t sources = 0;

  std::int32_t reserved = 0;
  std::int32_t sequences = 0;    // joined
  std::int32_t stalled = 0;      // of these, without credit or room
  std::int32_t quarantined = 0;  // reservations
  std::int32_t leases = 0;
  std::int32_t verifying = 0;  // Verify without an answer

  std::int64_t reservations = 0;
  std::int64_t refused_full = 0;
  std::int64_t refused_other = 0;
  std::int64_t joined = 0;
  std::int64_t rejected = 0;
  std::int64_t corrupt = 0;
  std::int64_t leases_expired = 0;
  std::int64_t quarantines = 0;
  std::int64_t revokes = 0;
  std::int64_t preempted = 0;
  std::int64_t cancelled = 0;
  std::int64_t finished = 0;
  std::int64_t tokens = 0;
  std::int64_t held_blocks = 0;
  std::int64_t stale_messages = 0;

  scheduler::StepTimeFit::Quality step_fit;  // sequences, KV tokens

  // Those that only grow, by the names of their metrics.
  struct Counter {
    std::string_view name;
    std::int64_t DecodeStats::*value;
  };
  static std::span<const Counter> Counters();
  // Adds the counters of another node, or of another life of this one.
  void AddCounters(const DecodeStats& other);
};

}  // namespace tandem::decode_node
