// One reservation at the sink: memory for one (request, attempt, placement).
//
//   Reserved ──► Joined ──► Free
//      └──► Quarantined ──► Free
//
//   Reserved     its source may write; a lease runs
//   Joined       everything came and matched; a sequence owns the blocks
//   Quarantined  given up, but the source may still write: nobody gets the blocks
//   Free         proved: nothing can write the blocks any more (or a sequence gave them back)
//
// From Reserved only HandOff leads to Joined, and nothing straight to Free but the proof itself.
// The proof depends on the transport (Proof). Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/handoff/events.h"
#include "common/handoff/ids.h"
#include "common/handoff/messages.h"
#include "common/kv/ids.h"

namespace tandem::handoff {

class ReservationMachine {
 public:
  enum class State : std::uint8_t { kReserved, kJoined, kQuarantined, kFree };

  struct Options {
    PlacementKey key;
    NodeId source;
    NodeId router;
    Proof proof = Proof::kWriter;
    std::int32_t num_layers = 0;
    std::int32_t kv_tokens = 0;  // whose KV comes or is held
    std::int32_t kv_blocks = 0;  // these tokens' blocks
    std::int32_t held = 0;       // leading ones that need nothing
    ByteCount block_bytes{0};    // of one (layer, block)
  };
  explicit ReservationMachine(const Options& options);

  // What a LayerDone means. kCorrupt: it does not continue what came before, or its count of
  // blocks, tokens or bytes is wrong.
  enum class Announced : std::uint8_t { kVerify, kStale, kCorrupt };
  Announced OnLayerDone(const LayerDone& message);
  // The bytes of an announced range were there and matched.
  void OnVerified(const LayerDone& done);

  // A HandOff: kJoin (→ Joined), kRepeat (has joined before), kWait (bytes are missing: the message
  // is kept), kReject.
  enum class Join : std::uint8_t { kJoin, kRepeat, kWait, kReject };
  Join OnHandOff(const HandOff& message);
  // The kept HandOff, when everything has come since: → Joined.
  std::optional<HandOff> TakeReadyHandOff();
  bool waiting() const { return handoff_.has_value(); }

  // → Quarantined. Requires: Reserved.
  void Quarantine();
  // Proofs. True: → Free by it.
  bool OnReleased();     // Release{drained}
  bool OnWriterGone();   // the processes that could write have ended
  bool OnSinkDrained();  // no receive of ours is outstanding and later data is dropped
  // The sequence ended. → Free. Requires: Joined.
  void EndSequence();

  State state() const { return state_; }
  const PlacementKey& key() const { return options_.key; }
  NodeId source() const { return options_.source; }
  NodeId router() const { return options_.router; }
  const Options& options() const { return options_; }
  bool revoke_sent = false;  // on the source's present connection

  // In token order; held ones first. The core owns the references.
  std::vector<kv::BlockId> blocks;

 private:
  bool Complete() const { return verified_ == expected_; }

  const Options options_;
  State state_ = State::kReserved;
  std::vector<std::int32_t> announced_;  // [num_layers] blocks announced or held, from the first
  std::int64_t expected_ = 0;            // (layer, block) pairs
  std::int64_t verified_ = 0;
  ByteCount announced_bytes_{0};
  std::optional<HandOff> handoff_;
};

}  // namespace tandem::handoff
