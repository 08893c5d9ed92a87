// One seeded history: a router, prefill and decode nodes, clients and what goes wrong; the
// production cores under a virtual clock. After every event the invariants of
// common/handoff/PROTOCOL.md are checked, at the end the books.
//
//   SimOptions options = DrawHistory(7);          // 3–12 requests, 1–3 faults
//   SimReport report = Simulate(options);
//   if (!report.ok()) options = Shrink(options);  // the fewest faults that still break it
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/handoff/events.h"
#include "decode_node/core/decode_core.h"
#include "deploy/sim/fault_plan.h"
#include "deploy/sim/network.h"
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
  std::int32_t short_deadline_percent = 0;  // of up to 2 s; the others' is `deadline`
  Duration deadline = std::chrono::seconds(20);
  LinkModel link;
  FaultPlan faults;             // in any order
  bool strict = false;          // no error is excused, whatever the faults
  std::size_t trace_lines = 0;  // kept for the report
};

// A wait of a client that reads, for its next position or its end.
struct StreamPause {
  Duration whole{0};
  Duration beyond{0};  // less the time its prompt was computed, and the time no pair worked
};

struct SimReport {
  std::string violation;           // empty: none
  std::vector<std::string> trace;  // the last events
  std::uint64_t events = 0;
  Duration virtual_time{0};
  std::array<std::int32_t, kFaultKinds> faults{};  // that happened, by kind
  std::int32_t done = 0;
  std::int32_t cancelled = 0;
  std::int32_t failed = 0;          // with an error that the faults excuse
  std::int32_t cut = 0;             // ended with their router
  std::vector<StreamPause> pauses;  // the longest of each stream that had to wait, from a fault on
  Duration calm_wait_max{0};        // the longest for a position while a pair worked undisturbed
  Duration settled_after{0};        // all that was left was gone, after the last end and fault
  router::RouterStats router;       // of the last life
  prefill_node::PrefillStats prefill;  // sums of the counters, over all lives
  decode_node::DecodeStats decode;
  std::int32_t prefill_nodes_used = 0;  // lives that computed something
  std::int32_t decode_nodes_used = 0;
  bool ok() const { return violation.empty(); }
};

// The same options give the same history, event for event.
SimReport Simulate(const SimOptions& options);

// The history of a seed, faults included.
SimOptions DrawHistory(std::uint64_t seed);

// Requires: Simulate(options) breaks. Leaves faults out, then makes the rest shorter and simpler,
// while it still does.
SimOptions Shrink(SimOptions options);

}  // namespace tandem::sim
