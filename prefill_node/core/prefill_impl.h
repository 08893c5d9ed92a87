// PrefillCore's state; see prefill_core.h. One Task per unfinished attempt.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/handoff/deadline_queue.h"
#include "common/handoff/placement_machine.h"
#include "common/handoff/prefill_task.h"
#include "common/kv/prefix_cache.h"
#include "common/scheduler/prefill_policy.h"
#include "common/scheduler/step_time.h"
#include "prefill_node/core/prefill_core.h"

namespace tandem::prefill_node {

class PrefillCore::Impl {
 public:
  explicit Impl(const PrefillConfig& config);

  void RouterConnected(handoff::NodeId router, const handoff::Hello& hello, Actions& out);
  void RouterLost(Time now, handoff::NodeId router, Actions& out);
  void SinkConnected(Time now, handoff::NodeId sink, const handoff::Hello& hello, Actions& out);
  void SinkLost(Time now, handoff::NodeId sink, Actions& out);
  void OnMessage(Time now, handoff::NodeId from, const handoff::Message& message, Actions& out);
  void SetSlice(Duration slice) { slice_ = slice; }
  void StepDone(Time now, std::uint64_t step, std::span<const sequence::SampledToken> results,
                Duration took, Actions& out);
  void StepFailed(Time now, std::uint64_t step, Actions& out);
  void LayerComputed(Time now, std::uint64_t step, kv::Layer layer, Actions& out);
  void PushFenced(Time now, PushTicket ticket, ByteCount bytes, std::uint64_t checksum,
                  Actions& out);
  void PushFailed(Time now, PushTicket ticket, Actions& out);
  void PushDrained(Time now, handoff::PlacementKey key, Actions& out);
  void ProbeWritten(handoff::NodeId sink, std::uint64_t nonce, ByteCount bytes,
                    std::uint64_t checksum, Actions& out);
  void ProbeEnded(Time now, handoff::NodeId sink, std::uint64_t nonce, bool ok, Actions& out);
  void BeginDrain(Time now, Duration budget, Actions& out);
  bool draining() const { return drain_end_ != kNever; }
  bool drained() const;
  void OnTime(Time now, Actions& out);
  scheduler::StepProgress progress(Time now) const;
  void TryStep(Time now, Actions& out);
  Time NextDeadline() const;
  handoff::Heartbeat MakeHeartbeat(Time now, handoff::NodeId to);
  PrefillStats stats() const;

 private:
  using Machine = handoff::PrefillTask;
  using Placement = handoff::PlacementMachine;
  struct Task {
    Task(const handoff::Prefill& message, handoff::NodeId router, Time now, std::uint64_t tag)
        : machine(message, router, now), tag(tag) {}
    Machine machine;
    const std::uint64_t tag;          // order of arrival; SliceTag in a batch
    std::vector<kv::BlockId> blocks;  // pinned, in token order; empty while queued
    std::vector<Hash128> block_hashes;
    std::optional<Placement> placement;
    std::size_t sink_index = 0;  // of placement, in the ranking
    bool waits_for_room = false;
    bool in_step = false;
    TokenCount chunk{0};      // in the running step
    std::int32_t writes = 0;  // of the placement, fenced
    Time kv_done{};           // the last layer's KV of the last token; Time{}: not yet
    // Ended while in the running step: only its blocks are left, and perhaps this answer.
    bool ended = false;
    std::optional<handoff::Cancelled> answer;
  };
  // A placement that ended with writes outstanding, and the references that pin their source.
  struct Draining {
    Placement placement;
    std::vector<kv::BlockId> blocks;
  };
  struct Sink {
    handoff::Hello hello;
    bool connected = false;
    bool usable = false;    // its last probe succeeded
    bool full = false;      // it refused for lack of room; then free_blocks counts
    bool draining = false;  // takes nothing new
    bool limited = false;   // pushes wait for outstanding bytes to fall
    bool replaced = false;  // another life has its name: kept while writes are outstanding
    kv::BlockCount free_blocks{0};
    ByteCount outstanding{0};
    Time renew_at = kNever;
    Time probe_at = kNever;
    std::uint64_t probe_nonce = 0;  // of the running probe; 0: none
  };
  struct Router {
    handoff::Incarnation incarnation;
    std::uint64_t cache_cursor = 0;
    std::vector<handoff::PeerInfo> peers;
  };
  struct Step {
    std::uint64_t number = 0;
    bool running = false;
    Time started{};
    std::int32_t layers_done = 0;
    double tokens = 0;
    double pairs = 0;
    Duration stuck_after{0};
    std::vector<Task*> tasks;  // [slices]
    sequence::Batch batch;
  };

  // prefill_core.cc: requests and their end.
  void Handle(Time now, handoff::NodeId from, const handoff::Message& message, Actions& out);
  void OnPrefill(Time now, handoff::NodeId from, const handoff::Prefill& message, Actions& out);
  void OnCancel(Time now, handoff::NodeId from, const handoff::Cancel& message, Actions& out);
  void MoveTasks(Time now, Actions& out);
  void OnPeers(handoff::NodeId from, const handoff::Peers& message, Actions& out);
  void FailTask(Time now, Task& task, handoff::Reason reason, Actions& out);
  // Ends a task for good; `task` is gone afterwards, or lives on as the running step's remainder.
  void EndTask(Time now, Task& task, Actions& out);
  void Free(Task& task);
  Task* FindTask(const handoff::PlacementKey& key);  // whose placement has this key

  // prefill_steps.cc: the batch.
  bool Enter(Time now, Task& task, Actions& out);
  void StartChunks(Time now, Actions& out);
  TokenCount StepTokens() const;
  void EndStep(Time now);
  void OnTokenZero(Time now, Task& task, const sequence::SampledToken& token, Actions& out);
  std::int32_t ReadyBlocks(const Task& task, std::int32_t layer) const;
  std::int32_t BlocksOf(TokenCount tokens) const {
    return config_.layout.BlocksFor(tokens).value();
  }

  // prefill_placements.cc: where KV goes.
  void Place(Time now, Task& task, Actions& out);  // may end the task
  void PlaceWaiting(Time now, Actions& out);
  void DropPlacement(Time now, Task& task, Actions& out);
  void NoteLeaseExpired(const Task& task, Actions& out);
  void DropAndPlace(Time now, Task& task, handoff::Reason reason, Actions& out);
  void FinishDraining(std::map<handoff::PlacementKey, Draining>::iterator it, Actions& out);
  void Pump(Time now, Task& task, Actions& out);
  void PumpSink(Time now, handoff::NodeId sink, Actions& out);
  void MaybeHandOff(Task& task, Actions& out);
  void SendHandOff(Task& task, Actions& out);
  void OnReserved(Time now, handoff::NodeId from, const handoff::Reserved& message, Actions& out);
  void OnReserveRefused(Time now, handoff::NodeId from, const handoff::ReserveRefused& message,
                        Actions& out);
  void OnNoted(handoff::NodeId from, const handoff::PlacementNoted& message, Actions& out);
  void OnPlacementRefused(Time now, handoff::NodeId from, const handoff::PlacementRefused& message,
                          Actions& out);
  void OnJoined(Time now, handoff::NodeId from, const handoff::Joined& message, Actions& out);
  void OnRejected(Time now, handoff::NodeId from, const handoff::Rejected& message, Actions& out);
  void OnRevoke(Time now, handoff::NodeId from, const handoff::Revoke& message, Actions& out);
  void OnRenewAnswer(Time now, handoff::NodeId from, const handoff::RenewAnswer& message,
                     Actions& out);
  void OnSinkHeartbeat(Time now, handoff::NodeId from, const handoff::Heartbeat& message,
                       Actions& out);
  void RenewLeases(Time now, handoff::NodeId id, Sink& sink, Actions& out);
  void SinkTimers(Time now, Actions& out);
  void SinkReplaced(Time now, handoff::NodeId old, Actions& out);
  void ForgetReplaced(handoff::NodeId id);  // unless writes are outstanding
  Sink* FindSink(handoff::NodeId id);
  handoff::NodeId SinkByName(std::string_view name) const;  // connected; NodeId(0): none

  void SendTo(handoff::NodeId to, handoff::Message message, Actions& out);

  const PrefillConfig config_;
  kv::PrefixCache cache_;
  std::map<handoff::NodeId, Router> routers_;
  std::vector<handoff::PeerInfo> dialed_;  // as DialSinks said last
  std::map<handoff::NodeId, Sink> sinks_;
  std::map<handoff::RequestId, std::unique_ptr<Task>> tasks_;
  std::vector<std::unique_ptr<Task>> remainders_;  // ended ones of the running step
  std::map<std::uint64_t, Task*> queued_;          // by tag
  std::map<std::uint64_t, Task*> active_;          // Computing, by tag
  std::map<std::uint64_t, Task*> waiting_;         // for room at a sink, by tag
  std::map<handoff::PlacementKey, Draining> draining_;
  absl::flat_hash_map<std::uint64_t, handoff::PlacementKey> tickets_;  // outstanding writes
  handoff::DeadlineQueue<handoff::RequestId> deadlines_;
  handoff::DeadlineQueue<handoff::PlacementKey> leases_;   // when to stop posting
  handoff::DeadlineQueue<handoff::PlacementKey> returns_;  // lost sinks that may have joined
  Step step_;
  scheduler::StepTimeFit fit_;
  scheduler::StepTimeFit link_fit_;
  Duration slice_{0};        // see SetSlice
  Time drain_end_ = kNever;  // when what is left is moved; kNever: not draining
  bool moved_ = false;       // what was left at the end of the budget
  bool gave_up_ = false;     // on writes outstanding after the grace
  std::uint64_t next_tag_ = 1;
  std::uint64_t next_ticket_ = 1;
  std::uint64_t next_nonce_ = 1;
  PrefillStats counters_;
  std::vector<scheduler::PromptProgress> progress_;  // scratch
  std::vector<TokenCount> chunks_;                   // scratch
};

}  // namespace tandem::prefill_node
