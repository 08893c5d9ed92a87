// One placement at the source: one sink chosen for one attempt's KV, from Reserve to its end.
//
//   Reserving ──► Pushing ──► Fenced ──► HandingOff ──► Joined
//       └───────────┴───────────┴─────────────┴──► Draining ──► Released
//
//   Reserving   Reserve is sent; no block of the sink is known
//   Pushing     blocks known; writes go out as layers become ready
//   Fenced      every layer of every block is in the sink, by its fences
//   HandingOff  HandOff is sent, perhaps more than once; the sink may have joined
//   Joined      the sink said so
//   Draining    given up with writes outstanding: the source's blocks stay pinned
//   Released    no write is outstanding and none will be made
//
// Knows what was pushed, not how: the core posts writes and reports fences. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/time.h"
#include "common/handoff/ids.h"
#include "common/handoff/messages.h"
#include "common/kv/ids.h"

namespace tandem::handoff {

class PlacementMachine {
 public:
  enum class State : std::uint8_t {
    kReserving,
    kPushing,
    kFenced,
    kHandingOff,
    kJoined,
    kDraining,
    kReleased
  };
  // One layer of blocks [first, first + count) of the placement.
  struct Range {
    kv::Layer layer;
    std::int32_t first = 0;
    std::int32_t count = 0;
  };

  // `num_blocks`: with KV to move, the last perhaps partial. The lease counts from `now`.
  PlacementMachine(PlacementKey key, NodeId sink, std::int32_t num_layers, std::int32_t num_blocks,
                   Time now);

  // → Pushing, or Fenced when the sink holds everything. False, and nothing changed: malformed, or
  // not Reserving.
  bool OnReserved(Time now, const Reserved& message);
  // The router noted it. False: was noted, or has ended.
  bool OnNoted();

  // What of `layer` may be pushed, given that its first `ready` blocks are. Empty outside Pushing.
  std::optional<Range> Next(kv::Layer layer, std::int32_t ready) const;
  // A write of `range` is now outstanding.
  void OnPosted(Time now, std::uint64_t ticket, const Range& range, ByteCount bytes);
  // Its fence came; nullopt: an unknown ticket. → Fenced with the last one; → Released from
  // Draining.
  std::optional<Range> OnFenced(Time now, std::uint64_t ticket, ByteCount bytes);
  // No write is outstanding any more, whatever was.
  void OnDrained(Time now);

  // Requires: Fenced, or HandingOff (a repeat).
  void OnHandOffSent();
  // False: not HandingOff.
  bool OnJoined();
  // Gives it up. → Draining, or Released when nothing is outstanding. Requires: live().
  void Drop(Time now);

  // A Renew naming it was sent, and answered without it among the gone.
  void OnRenewSent(Time now) {
    if (!renew_sent_.has_value()) renew_sent_ = now;  // an answer may be to the first of several
  }
  void OnRenewed();
  // When to stop posting: the lease's end less what clocks and the network may be off.
  Time stop_at() const;
  bool leased() const { return state_ == State::kPushing || state_ == State::kFenced; }

  State state() const { return state_; }
  bool live() const { return state_ <= State::kHandingOff; }
  bool noted() const { return noted_; }
  const PlacementKey& key() const { return key_; }
  NodeId sink() const { return sink_; }
  const std::vector<kv::BlockId>& sink_blocks() const { return sink_blocks_; }
  std::int32_t held() const { return held_; }
  bool outstanding() const { return !writes_.empty(); }
  ByteCount outstanding_bytes() const { return outstanding_bytes_; }
  ByteCount fenced_bytes() const { return fenced_bytes_; }
  std::int32_t fenced_layer_blocks() const { return fenced_layer_blocks_; }
  // Time with a write outstanding.
  Duration transfer_time() const { return transfer_time_; }

 private:
  struct Write {
    std::uint64_t ticket;
    Range range;
    ByteCount bytes;
  };
  void EndWrite(Time now, std::size_t index);

  const PlacementKey key_;
  const NodeId sink_;
  const std::int32_t num_blocks_;
  State state_ = State::kReserving;
  bool noted_ = false;
  std::vector<kv::BlockId> sink_blocks_;
  std::int32_t held_ = 0;
  std::vector<std::int32_t> posted_;  // [num_layers] blocks posted or held, from the first
  std::vector<Write> writes_;         // outstanding
  ByteCount outstanding_bytes_{0};
  ByteCount fenced_bytes_{0};
  std::int32_t fenced_layer_blocks_ = 0;
  std::int64_t layer_blocks_left_ = 0;  // to be fenced
  Time busy_since_{};
  Duration transfer_time_{0};
  Time reserve_sent_;
  std::optional<Time> renew_sent_;
  Duration lease_{0};
  Time lease_from_{};
};

}  // namespace tandem::handoff
