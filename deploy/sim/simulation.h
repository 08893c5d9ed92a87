// One seeded history: a router, prefill and decode nodes, clients; the production cores under a
// virtual clock. After every event the invariants of common/handoff/PROTOCOL.md are checked that a
// history without faults can break, at the end the books.
//
//   SimReport report = Simulate({.seed = 7});
//   if (!report.ok()) fmt::print("seed 7: {}\n", report.violation);
#pragma once

#include <cstdint>
#include <string>

#include "common/handoff/events.h"
#include "decode_node/core/decode_core.h"
#include "deploy/sim/world.h"
#include "prefill_node/core/prefill_core.h"
#include "router/core/router_core.h"

namespace tandem::sim {

struct SimOptions {
  std::uint64_t seed = 1;
  std::int32_t prefill_nodes = 2;
  std::int32_t decode_nodes = 2;
  handoff::Proof proof = handoff::Proof::kWriter;
  std::int32_t requests = 12;
  std::int32_t num_layers = 3;
  std::int32_t block_size = 16;
  std::int32_t prefill_blocks = 64;
  std::int32_t decode_blocks = 64;
  std::int32_t step_tokens = 64;
  std::int32_t prompt_max = 200;                      // tokens
  std::int32_t output_max = 80;                       // max_tokens
  Duration arrivals = std::chrono::milliseconds(40);  // all within
  std::int32_t cancel_percent = 15;
  std::int32_t stop_string_percent = 10;
  std::int32_t slow_client_percent = 10;
  LinkModel link;
};

struct SimReport {
  std::string violation;  // empty: none
  std::uint64_t events = 0;
  Duration virtual_time{0};
  std::int32_t done = 0;
  std::int32_t cancelled = 0;
  router::RouterStats router;
  prefill_node::PrefillStats prefill;  // sums of the counters
  decode_node::DecodeStats decode;
  std::int32_t prefill_nodes_used = 0;  // that computed something
  std::int32_t decode_nodes_used = 0;
  bool ok() const { return violation.empty(); }
};

SimReport Simulate(const SimOptions& options);

}  // namespace tandem::sim
