// The prefill node's decisions: queue, batch, prefix cache, pins; where each prompt's KV goes, and
// when it may be forgotten.
//
// Pure: events with a time in, actions appended to `out`; no sockets, threads, clock or device.
// Call OnTime at NextDeadline() (or later). Not thread-safe: one strand.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/hash128.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/handoff/events.h"
#include "common/kv/layout.h"
#include "common/scheduler/step_time.h"
#include "common/sequence/batch.h"
#include "prefill_node/core/actions.h"
#include "prefill_node/core/prefill_stats.h"

namespace tandem::prefill_node {

struct PrefillConfig {
  std::string name;
  handoff::Incarnation incarnation;
  Hash128 model_instance;
  kv::KvLayout layout;
  kv::BlockCount num_blocks{0};
  TokenCount max_context{0};
  TokenCount step_tokens{512};                            // prompt tokens in one step
  std::int32_t step_sequences = 32;                       // prompts in one step
  std::int32_t tasks_max = 256;                           // queued, computing or pinned
  ByteCount outstanding_max{64 << 20};                    // of writes to one sink
  Duration probe_every = std::chrono::seconds(10);        // a pair that works
  Duration probe_again = std::chrono::milliseconds(500);  // one that does not
  // Errors: InvalidArgument naming the field.
  Status Validate() const;
};

class PrefillCore {
 public:
  // Requires: config.Validate().ok().
  explicit PrefillCore(const PrefillConfig& config);
  ~PrefillCore();
  PrefillCore(const PrefillCore&) = delete;
  PrefillCore& operator=(const PrefillCore&) = delete;

  void RouterConnected(Time now, handoff::NodeId router, const handoff::Hello& hello, Actions& out);
  void RouterLost(Time now, handoff::NodeId router, Actions& out);
  // Requires: the layouts are equal (Hello was checked).
  void SinkConnected(Time now, handoff::NodeId sink, const handoff::Hello& hello, Actions& out);
  void SinkLost(Time now, handoff::NodeId sink, Actions& out);
  // From routers and sinks. A message that makes no sense is counted and dropped.
  void OnMessage(Time now, handoff::NodeId from, handoff::Message message, Actions& out);

  // Where decoding shares the cores: what it leaves to prefill between two of its steps; zero:
  // everything. Bounds the steps that start from now on.
  void SetSlice(Duration slice);
  // `results`: one per slice with `sample`, any order.
  void StepDone(Time now, std::uint64_t step, std::span<const sequence::SampledToken> results,
                Duration took, Actions& out);
  // The engine could not run it: its requests fail as internal.
  void StepFailed(Time now, std::uint64_t step, Actions& out);
  // All slices' KV of this layer is in the arena; layers in ascending order. Optional: what was not
  // reported is pushed at StepDone.
  void LayerComputed(Time now, std::uint64_t step, kv::Layer layer, Actions& out);

  void PushFenced(Time now, PushTicket ticket, ByteCount bytes, std::uint64_t checksum,
                  Actions& out);
  void PushFailed(Time now, PushTicket ticket, Actions& out);
  void PushDrained(Time now, handoff::PlacementKey key, Actions& out);
  void ProbeWritten(Time now, handoff::NodeId sink, std::uint64_t nonce, ByteCount bytes,
                    std::uint64_t checksum, Actions& out);
  void ProbeFailed(Time now, handoff::NodeId sink, std::uint64_t nonce, Actions& out);

  // Takes nothing new and says so to all peers at once. What is not handed over within `budget`
  // fails as draining, so that its router moves it; a later call can only shorten the budget.
  // Blocks stay pinned while a write from them is outstanding (kDrainGrace at most).
  void BeginDrain(Time now, Duration budget, Actions& out);
  bool draining() const;
  bool drained() const;  // nothing is left to do

  void OnTime(Time now, Actions& out);
  Time NextDeadline() const;

  // For `to`, a router or a sink; takes the prefix-cache changes not yet told to that router.
  handoff::Heartbeat MakeHeartbeat(Time now, handoff::NodeId to);
  PrefillStats stats() const;
  scheduler::StepProgress progress(Time now) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::prefill_node
