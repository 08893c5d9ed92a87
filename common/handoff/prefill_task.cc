#include "common/handoff/prefill_task.h"

#include <utility>

#include "common/base/check.h"

namespace tandem::handoff {

Reason PrefillTask::Check(const Prefill& message) {
  const bool sound = message.tokens != nullptr && !message.tokens->empty() &&
                     message.attempt > Attempt(0) && message.first_position >= Position(0) &&
                     message.params.Validate().ok() &&
                     message.first_position.value() < message.params.max_tokens.value() &&
                     message.prompt_tokens.value() + std::int64_t{message.first_position.value()} ==
                         static_cast<std::int64_t>(message.tokens->size());
  return sound ? Reason::kNone : Reason::kInternal;
}

PrefillTask::PrefillTask(const Prefill& message, NodeId router, Time now)
    : request_(message.request),
      attempt_(message.attempt),
      router_(router),
      tokens_(message.tokens),
      hashes_(message.hashes),
      params_(message.params),
      prompt_tokens_(message.prompt_tokens),
      first_position_(message.first_position),
      arrived_(now),
      deadline_(message.budget > Duration::zero() ? now + message.budget : kNever) {
  for (const std::string& name : message.ranked_sinks) sinks_.push_back({name});
}

void PrefillTask::StartComputing(Time now, TokenCount cached) {
  TANDEM_CHECK(state_ == State::kQueued && cached < num_tokens());
  state_ = State::kComputing;
  started_ = now;
  computed_ = cached;
  times.queued = now - arrived_;
  times.cached_tokens = cached;
}

void PrefillTask::Advance(TokenCount tokens) {
  TANDEM_CHECK(state_ == State::kComputing && tokens <= left());
  computed_ += tokens;
  times.computed_tokens += tokens;
}

void PrefillTask::OnFirstToken(Time now, TokenId token, float logprob) {
  TANDEM_CHECK(state_ == State::kComputing && left() == TokenCount(0));
  first_token_ = token;
  first_logprob_ = logprob;
  times.prefill = now - started_;
  if (params_.Stops(token)) {
    finish_ = sequence::FinishReason::kStop;
  } else if (!moves()) {
    finish_ = sequence::FinishReason::kLength;
  }
  state_ = finish_ == sequence::FinishReason::kNone ? State::kComputed : State::kDone;
}

void PrefillTask::Finish() { state_ = State::kDone; }

PlacementKey PrefillTask::Place(std::size_t index) {
  sinks_[index].tried = true;
  ++placed_;
  ++last_number_;
  return {request_, attempt_, last_number_};
}

void PrefillTask::OnFull(std::size_t index) {
  sinks_[index].tried = false;
  --placed_;
}

}  // namespace tandem::handoff
