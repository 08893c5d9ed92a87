#include "common/handoff/placement_machine.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/handoff/events.h"

namespace tandem::handoff {

PlacementMachine::PlacementMachine(PlacementKey key, NodeId sink, std::int32_t num_layers,
                                   std::int32_t num_blocks, Time now)
    : key_(key),
      sink_(sink),
      num_blocks_(num_blocks),
      posted_(static_cast<std::size_t>(num_layers)),
      reserve_sent_(now) {}

bool PlacementMachine::OnReserved(Time now, const Reserved& message) {
  const auto blocks = static_cast<std::int64_t>(message.blocks.size());
  const bool sound = blocks >= num_blocks_ && message.held >= kv::BlockCount(0) &&
                     message.held.value() <= num_blocks_ && message.lease > Duration::zero();
  if (state_ != State::kReserving || !sound) return false;
  state_ = State::kPushing;
  sink_blocks_ = message.blocks;
  held_ = message.held.value();
  lease_ = message.lease;
  lease_from_ = reserve_sent_;
  std::fill(posted_.begin(), posted_.end(), held_);
  layer_blocks_left_ = static_cast<std::int64_t>(posted_.size()) * (num_blocks_ - held_);
  if (layer_blocks_left_ == 0) state_ = State::kFenced;
  busy_since_ = now;
  return true;
}

bool PlacementMachine::OnNoted() {
  if (noted_ || (state_ != State::kPushing && state_ != State::kFenced)) return false;
  noted_ = true;
  return true;
}

std::optional<PlacementMachine::Range> PlacementMachine::Next(kv::Layer layer,
                                                              std::int32_t ready) const {
  if (state_ != State::kPushing) return std::nullopt;
  const std::int32_t posted = posted_[static_cast<std::size_t>(layer.value())];
  ready = std::min(ready, num_blocks_);
  if (ready <= posted) return std::nullopt;
  return Range{layer, posted, ready - posted};
}

void PlacementMachine::OnPosted(Time now, std::uint64_t ticket, const Range& range,
                                ByteCount bytes) {
  std::int32_t& posted = posted_[static_cast<std::size_t>(range.layer.value())];
  TANDEM_CHECK(state_ == State::kPushing && range.first == posted && range.count > 0);
  posted += range.count;
  if (writes_.empty()) busy_since_ = now;
  writes_.push_back({ticket, range, bytes});
  outstanding_bytes_ += bytes;
}

void PlacementMachine::EndWrite(Time now, std::size_t index) {
  outstanding_bytes_ -= writes_[index].bytes;
  writes_.erase(writes_.begin() + static_cast<std::ptrdiff_t>(index));
  if (writes_.empty()) transfer_time_ += now - busy_since_;
}

std::optional<PlacementMachine::Range> PlacementMachine::OnFenced(Time now, std::uint64_t ticket,
                                                                  ByteCount bytes) {
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if (writes_[i].ticket != ticket) continue;
    const Range range = writes_[i].range;
    EndWrite(now, i);
    fenced_bytes_ += bytes;
    fenced_layer_blocks_ += range.count;
    layer_blocks_left_ -= range.count;
    if (state_ == State::kPushing && layer_blocks_left_ == 0) state_ = State::kFenced;
    if (state_ == State::kDraining && writes_.empty()) state_ = State::kReleased;
    return range;
  }
  return std::nullopt;
}

void PlacementMachine::OnDrained(Time now) {
  while (!writes_.empty()) EndWrite(now, writes_.size() - 1);
  if (state_ == State::kDraining) state_ = State::kReleased;
}

void PlacementMachine::OnHandOffSent() {
  TANDEM_CHECK(state_ == State::kHandingOff || (state_ == State::kFenced && noted_));
  state_ = State::kHandingOff;
}

bool PlacementMachine::OnJoined() {
  if (state_ != State::kHandingOff) return false;
  state_ = State::kJoined;
  return true;
}

void PlacementMachine::Drop(Time now) {
  TANDEM_CHECK(live());
  state_ = State::kDraining;
  if (writes_.empty()) OnDrained(now);
}

void PlacementMachine::OnRenewed() {
  if (renew_sent_.has_value()) lease_from_ = *renew_sent_;
  renew_sent_.reset();
}

Time PlacementMachine::stop_at() const { return lease_from_ + lease_ - kLeaseGrace; }

}  // namespace tandem::handoff
