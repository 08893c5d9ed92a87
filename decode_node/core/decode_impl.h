// DecodeCore's state; see decode_core.h. One Reservation per placement, until its blocks are free.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/handoff/deadline_queue.h"
#include "common/handoff/reservation_machine.h"
#include "common/kv/prefix_cache.h"
#include "common/scheduler/decode_policy.h"
#include "common/scheduler/step_time.h"
#include "decode_node/core/decode_core.h"

namespace tandem::decode_node {

class DecodeCore::Impl {
 public:
  explicit Impl(const DecodeConfig& config);

  void RouterConnected(handoff::NodeId router, const handoff::Hello& hello);
  void RouterLost(Time now, handoff::NodeId router, Actions& out);
  void SourceConnected(Time now, handoff::NodeId source, const handoff::Hello& hello,
                       handoff::Proof proof, Actions& out);
  void SourceLost(Time now, handoff::NodeId source, Actions& out);
  void OnMessage(Time now, handoff::NodeId from, const handoff::Message& message, Actions& out);
  void LayerVerified(Time now, VerifyTicket ticket, bool ok, Actions& out);
  void DataArrived(Time now, const handoff::PlacementKey& key);
  void SinkDrained(const handoff::PlacementKey& key);
  void WriterGone(Time now, handoff::NodeId source, Actions& out);
  void ProbeVerified(handoff::NodeId source, std::uint64_t nonce, bool ok, Actions& out);
  void StepDone(Time now, std::uint64_t step, std::span<const sequence::SampledToken> results,
                Duration took, Actions& out);
  void StepFailed(Time now, std::uint64_t step, Actions& out);
  void BeginDrain(Time now, Duration budget, Actions& out);
  bool draining() const { return drain_end_ != kNever; }
  bool drained() const;
  void OnTime(Time now, Actions& out);
  scheduler::StepProgress progress(Time now) const;
  void TryStep(Time now, Actions& out);
  Time NextDeadline() const;
  handoff::Heartbeat MakeHeartbeat(Time now, handoff::NodeId to);
  // What a source may count on: none of those kept for growth, and no blocks while every place is
  // taken, or it would ask in vain, again and again.
  kv::BlockCount OfferedBlocks() const;
  DecodeStats stats() const;

 private:
  using Machine = handoff::ReservationMachine;
  struct Sequence {
    std::uint64_t tag = 0;  // order of joining; SliceTag in a batch
    TokenIds tokens;        // prompt and generated; the KV of all but the last is there
    TokenCount prompt{0};   // the client's
    sequence::SamplingParams params;
    std::int64_t credit = 0;  // positions that may still be sent
    bool in_step = false;
  };
  struct Reservation {
    explicit Reservation(const Machine::Options& options) : machine(options) {}
    Machine machine;
    handoff::HashList hashes;
    bool own_numerics = false;                         // generated KV continues the hashes' class
    handoff::Reason reason = handoff::Reason::kStale;  // why it was given up
    std::optional<Sequence> sequence;                  // while Joined
    // Ended while in the running step: only its blocks are left, and perhaps an answer.
    bool ended = false;
    std::optional<handoff::Cancelled> answer;
  };
  struct Source {
    std::string numerics;
    bool connected = false;
    bool gone = false;  // can write no more
    handoff::Proof proof = handoff::Proof::kWriter;
    std::int32_t reservations = 0;
    kv::BlockCount wants{0};  // refused as full: it waits for so many; zero: not waiting
  };
  struct Router {
    handoff::Incarnation incarnation;
    std::uint64_t cache_cursor = 0;
  };
  struct Step {
    std::uint64_t number = 0;
    bool running = false;
    Time started{};
    double kv_tokens = 0;
    Duration stuck_after{0};
    std::vector<Reservation*> items;  // [slices]
    sequence::Batch batch;
  };

  // decode_reservations.cc: from Reserve to Joined or Free.
  void OnReserve(Time now, handoff::NodeId from, const handoff::Reserve& message, Actions& out);
  void OnLayerDone(Time now, handoff::NodeId from, const handoff::LayerDone& message, Actions& out);
  void OnHandOff(Time now, handoff::NodeId from, const handoff::HandOff& message, Actions& out);
  void OnRelease(Time now, handoff::NodeId from, const handoff::Release& message, Actions& out);
  void OnRenew(Time now, handoff::NodeId from, const handoff::Renew& message, Actions& out);
  void RefuseReserve(handoff::NodeId to, const handoff::PlacementKey& key, handoff::Reason reason,
                     Actions& out);
  void SendReserved(Time now, Reservation& reservation, Actions& out);
  void Quarantine(Reservation& reservation, handoff::Reason reason, Actions& out);
  void ForgetVerifies(const handoff::PlacementKey& key);
  void SendRevoke(Reservation& reservation, Actions& out);
  // Gives back what a machine that became Free held; the reservation is gone afterwards.
  void FreeQuarantined(Reservation& reservation);
  void Forget(Reservation& reservation);
  Reservation* Find(const handoff::PlacementKey& key);
  std::vector<handoff::PlacementKey> KeysOf(handoff::RequestId request) const;
  template <typename Predicate>
  std::vector<handoff::PlacementKey> KeysWhere(Predicate&& predicate) const {
    std::vector<handoff::PlacementKey> keys;
    for (const auto& [key, reservation] : reservations_) {
      if (predicate(*reservation)) keys.push_back(key);
    }
    return keys;
  }

  // decode_steps.cc: sequences.
  void Join(const handoff::HandOff& message, Reservation& reservation, Actions& out);
  void CachePrefix(Reservation& reservation, std::int32_t kv_tokens);
  void CacheGenerated(Reservation& reservation);
  void EndSequence(Reservation& reservation);
  void FailSequence(Reservation& reservation, handoff::Reason reason, Actions& out);
  void ApplyChoices(Actions& out);
  void OnToken(Reservation& reservation, const sequence::SampledToken& token, Actions& out);
  void EndStep(Actions& out);
  bool NeedsBlock(const Reservation& reservation) const;
  // Blocks that arrivals must leave to the sequences which will outgrow theirs: one each, and after
  // a preemption a head-room each, or what was preempted would come back only to be preempted.
  kv::BlockCount GrowthReserve() const;
  kv::BlockCount GivesBack(const Reservation& reservation) const;

  // decode_core.cc
  // To sources that were refused as full: there is room now.
  void TellOfRoom(Time now, Actions& out);
  void MoveAll(Actions& out);
  void Handle(Time now, handoff::NodeId from, const handoff::Message& message, Actions& out);
  void OnCancel(handoff::NodeId from, const handoff::Cancel& message, Actions& out);
  void OnCredit(handoff::NodeId from, const handoff::Credit& message);
  void SendTo(handoff::NodeId to, handoff::Message message, Actions& out);
  bool Connected(handoff::NodeId id) const;
  handoff::NodeId RouterOf(handoff::Incarnation incarnation) const;  // NodeId(0): none

  const DecodeConfig config_;
  kv::PrefixCache cache_;
  std::map<handoff::NodeId, Router> routers_;
  std::map<handoff::NodeId, Source> sources_;
  std::map<handoff::PlacementKey, std::unique_ptr<Reservation>> reservations_;
  std::map<std::uint64_t, Reservation*> sequences_;       // joined, by tag
  std::vector<std::unique_ptr<Reservation>> remainders_;  // ended ones of the running step
  handoff::DeadlineQueue<handoff::PlacementKey> leases_;
  absl::flat_hash_map<std::uint64_t, std::pair<handoff::PlacementKey, handoff::LayerDone>>
      verifying_;  // by ticket
  Step step_;
  std::size_t turn_ = 0;
  bool preempting_ = false;  // until there is room for everybody's growth again
  scheduler::StepTimeFit fit_;
  Time drain_end_ = kNever;  // when what is left is moved; kNever: not draining
  bool moved_ = false;       // what was left at the end of the budget
  std::uint64_t next_tag_ = 1;
  std::uint64_t next_ticket_ = 1;
  DecodeStats counters_;
  std::vector<scheduler::DecodeCandidate> candidates_;  // scratch
  std::vector<scheduler::DecodeChoice> choices_;        // scratch
};

}  // namespace tandem::decode_node
