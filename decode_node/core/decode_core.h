// The decode node's decisions: reservations and their leases, quarantine, the decode batch, growth
// and preemption, what each router may be sent.
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
#include "decode_node/core/actions.h"
#include "decode_node/core/decode_stats.h"

namespace tandem::decode_node {

struct DecodeConfig {
  std::string name;
  handoff::Incarnation incarnation;
  Hash128 model_instance;
  std::string numerics;  // generated KV is cached only under hashes of this class
  kv::KvLayout layout;
  kv::BlockCount num_blocks{0};
  TokenCount max_context{0};
  std::int32_t step_sequences = 64;     // in one step
  std::int32_t reservations_max = 256;  // reserved, joined or quarantined
  // Errors: InvalidArgument naming the field.
  Status Validate() const;
};

class DecodeCore {
 public:
  // Requires: config.Validate().ok().
  explicit DecodeCore(const DecodeConfig& config);
  ~DecodeCore();
  DecodeCore(const DecodeCore&) = delete;
  DecodeCore& operator=(const DecodeCore&) = delete;

  void RouterConnected(Time now, handoff::NodeId router, const handoff::Hello& hello, Actions& out);
  void RouterLost(Time now, handoff::NodeId router, Actions& out);
  // `proof`: by the transport that `source` uses to write here.
  void SourceConnected(Time now, handoff::NodeId source, const handoff::Hello& hello,
                       handoff::Proof proof, Actions& out);
  void SourceLost(Time now, handoff::NodeId source, Actions& out);
  // From routers and sources. A message that makes no sense is counted and dropped.
  void OnMessage(Time now, handoff::NodeId from, handoff::Message message, Actions& out);

  void LayerVerified(Time now, VerifyTicket ticket, bool ok, Actions& out);
  // Data messages of a placement keep its lease alive.
  void DataArrived(Time now, handoff::PlacementKey key);
  void SinkDrained(Time now, handoff::PlacementKey key, Actions& out);
  // Every process that may write for `source` has ended (pidfd), or cannot reach memory any more.
  // The end of a connection is not that.
  void WriterGone(Time now, handoff::NodeId source, Actions& out);
  void ProbeVerified(Time now, handoff::NodeId source, std::uint64_t nonce, bool ok, Actions& out);

  // `results`: one per slice, any order.
  void StepDone(Time now, std::uint64_t step, std::span<const sequence::SampledToken> results,
                Duration took, Actions& out);
  // The engine could not run it: its sequences fail as internal.
  void StepFailed(Time now, std::uint64_t step, Actions& out);

  // Takes no new reservations and says so to all peers at once. What has not ended within `budget`
  // is given up: sequences fail as draining, so that their router moves them, reservations are
  // quarantined, so that their source places them elsewhere. A later call can only shorten it.
  void BeginDrain(Time now, Duration budget, Actions& out);
  bool draining() const;
  bool drained() const;  // nothing is left to do

  void OnTime(Time now, Actions& out);
  Time NextDeadline() const;

  // For `to`, a router or a source; takes the prefix-cache changes not yet told to that router.
  handoff::Heartbeat MakeHeartbeat(Time now, handoff::NodeId to);
  DecodeStats stats() const;
  scheduler::StepProgress progress(Time now) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::decode_node
