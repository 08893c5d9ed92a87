#include "common/handoff/reservation_machine.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::handoff {

ReservationMachine::ReservationMachine(const Options& options)
    : options_(options),
      announced_(static_cast<std::size_t>(options.num_layers), options.held),
      expected_(std::int64_t{options.num_layers} * (options.kv_blocks - options.held)) {
  TANDEM_CHECK(options.held <= options.kv_blocks);
}

ReservationMachine::Announced ReservationMachine::OnLayerDone(const LayerDone& message) {
  if (state_ != State::kReserved) return Announced::kStale;
  const std::int64_t first_layer = message.first_layer.value();
  const std::int64_t last_block = std::int64_t{message.first_block} + message.num_blocks;
  if (first_layer < 0 || message.num_layers < 1 ||
      first_layer + message.num_layers > options_.num_layers || message.num_blocks < 1 ||
      last_block > options_.kv_blocks || message.num_tokens < 1) {
    return Announced::kCorrupt;
  }
  if (message.bytes.value() !=
      options_.block_bytes.value() * message.num_blocks * message.num_layers) {
    return Announced::kCorrupt;
  }
  for (std::int32_t i = 0; i < message.num_layers; ++i) {
    if (announced_[static_cast<std::size_t>(first_layer + i)] != message.first_block) {
      return Announced::kCorrupt;
    }
  }
  for (std::int32_t i = 0; i < message.num_layers; ++i) {
    announced_[static_cast<std::size_t>(first_layer + i)] += message.num_blocks;
  }
  announced_bytes_ += message.bytes;
  return Announced::kVerify;
}

void ReservationMachine::OnVerified(const LayerDone& done) {
  verified_ += std::int64_t{done.num_layers} * done.num_blocks;
}

ReservationMachine::Join ReservationMachine::OnHandOff(const HandOff& message) {
  if (state_ == State::kJoined) return Join::kRepeat;
  if (state_ != State::kReserved || message.tokens == nullptr) return Join::kReject;
  const auto tokens = static_cast<std::int64_t>(message.tokens->size());
  const bool sound =
      tokens == std::int64_t{options_.kv_tokens} + 1 && message.total_layer_blocks == expected_ &&
      message.total_bytes.value() == expected_ * options_.block_bytes.value() &&
      message.first_position >= Position(0) &&
      message.prompt_tokens.value() + std::int64_t{message.first_position.value()} == tokens - 1 &&
      message.params.Validate().ok() &&
      message.first_position.value() + 1 < message.params.max_tokens.value();
  if (!sound) return Join::kReject;
  if (!Complete()) {
    handoff_ = message;
    return Join::kWait;
  }
  state_ = State::kJoined;
  return Join::kJoin;
}

std::optional<HandOff> ReservationMachine::TakeReadyHandOff() {
  if (state_ != State::kReserved || !handoff_.has_value() || !Complete()) return std::nullopt;
  state_ = State::kJoined;
  return std::exchange(handoff_, std::nullopt);
}

void ReservationMachine::Quarantine() {
  TANDEM_CHECK(state_ == State::kReserved);
  state_ = State::kQuarantined;
  handoff_.reset();
}

bool ReservationMachine::OnReleased() {
  if (state_ != State::kReserved && state_ != State::kQuarantined) return false;
  if (options_.proof != Proof::kWriter) return false;
  state_ = State::kFree;
  return true;
}

bool ReservationMachine::OnWriterGone() {
  // A reservation whose source is gone is quarantined first, by the loss of its owner.
  if (state_ != State::kQuarantined || options_.proof != Proof::kWriter) return false;
  state_ = State::kFree;
  return true;
}

bool ReservationMachine::OnSinkDrained() {
  if (state_ != State::kQuarantined || options_.proof != Proof::kReceives) return false;
  state_ = State::kFree;
  return true;
}

void ReservationMachine::EndSequence() {
  TANDEM_CHECK(state_ == State::kJoined);
  state_ = State::kFree;
}

}  // namespace tandem::handoff
