#include "common/handoff/request_machine.h"

#include <utility>

#include "common/base/check.h"

namespace tandem::handoff {

using sequence::FinishReason;

RequestMachine::RequestMachine(RequestId id, TokenList prompt, sequence::SamplingParams params)
    : id_(id),
      params_(std::move(params)),
      prompt_size_(Size(*prompt)),
      tokens_(std::make_shared<TokenIds>(*prompt)) {}

std::span<const TokenId> RequestMachine::TokensFrom(Position first) const {
  return std::span(*tokens_).subspan(static_cast<std::size_t>(prompt_size_ + first.value()));
}

std::span<const float> RequestMachine::LogprobsFrom(Position first) const {
  return std::span(logprobs_).subspan(static_cast<std::size_t>(first.value()));
}

bool RequestMachine::involves(NodeId node) const {
  if (finished() || state_ == State::kQueued) return false;
  return node == prefill_ || (placement_ > Placement(0) && node == decode_);
}

Prefill RequestMachine::Start(NodeId prefill_node) {
  TANDEM_CHECK(state_ == State::kQueued);
  state_ = State::kPrefilling;
  ++attempt_;
  prefill_ = prefill_node;
  decode_ = NodeId(0);
  placement_ = Placement(0);
  heard_decode_ = progressed_ = false;
  attempt_first_ = delivered();
  Prefill message;
  message.request = id_;
  message.attempt = attempt_;
  message.tokens = tokens_;  // from here on shared: Put copies before it appends
  message.prompt_tokens = TokenCount(prompt_size_);
  message.params = params_;
  message.first_position = attempt_first_;
  return message;
}

void RequestMachine::Put(TokenId token, float logprob) {
  if (tokens_.use_count() > 1) {
    auto copy = std::make_shared<TokenIds>();
    copy->reserve(tokens_->size() + 64);
    *copy = *tokens_;
    tokens_ = std::move(copy);
  }
  tokens_->push_back(token);
  logprobs_.push_back(logprob);
}

// The last position of all is out: by what the node said, or by the limit.
void RequestMachine::FinishIfLast(FinishReason reason, Outcome& outcome) {
  if (reason == FinishReason::kNone && delivered().value() >= params_.max_tokens.value()) {
    reason = FinishReason::kLength;
  }
  if (reason == FinishReason::kNone) return;
  state_ = State::kDone;
  finish_ = reason;
  outcome.kind = Kind::kEnded;
}

RequestMachine::Outcome RequestMachine::OnFirstToken(NodeId from, const FirstToken& message) {
  Outcome outcome{.first = delivered()};
  const bool is_current = (state_ == State::kPrefilling || state_ == State::kDecoding) &&
                          message.attempt == attempt_ && from == prefill_ &&
                          message.position == attempt_first_;
  if (!is_current) {
    outcome.kind = Kind::kStale;
    return outcome;
  }
  if (message.position < delivered()) {  // the decode node's copy was faster
    ++outcome.repeats;
    if (TokensFrom(message.position)[0] != message.token) ++outcome.repeats_different;
    return outcome;
  }
  Put(message.token, message.logprob);
  FinishIfLast(message.finish, outcome);
  return outcome;
}

RequestMachine::Outcome RequestMachine::OnTokens(NodeId from, const Tokens& message,
                                                 std::vector<Send>& out) {
  Outcome outcome{.first = delivered()};
  const bool is_current = (state_ == State::kPrefilling || state_ == State::kDecoding) &&
                          placement_ > Placement(0) && message.key == current() &&
                          from == decode_ && message.logprobs.size() == message.tokens.size() &&
                          message.first >= Position(0);
  if (!is_current) {
    outcome.kind = Kind::kStale;
    return outcome;
  }
  state_ = State::kDecoding;
  heard_decode_ = true;
  if (message.first > delivered()) {  // something was lost on the way
    Outcome lost = RetryAfter(Reason::kInternal, out);
    lost.gap = true;
    return lost;
  }
  Position position = message.first;
  for (std::size_t i = 0; i < message.tokens.size(); ++i, ++position) {
    if (position < delivered()) {
      ++outcome.repeats;
      if (TokensFrom(position)[0] != message.tokens[i]) ++outcome.repeats_different;
      continue;
    }
    if (position > attempt_first_) progressed_ = true;
    Put(message.tokens[i], message.logprobs[i]);
    const bool last = i + 1 == message.tokens.size();
    FinishIfLast(last ? message.finish : FinishReason::kNone, outcome);
    if (finished()) break;
  }
  return outcome;
}

RequestMachine::Outcome RequestMachine::OnPlaced(NodeId from, const Placed& message,
                                                 std::optional<NodeId> sink,
                                                 std::vector<Send>& out) {
  Outcome outcome{.first = delivered()};
  const PlacementKey& key = message.key;
  const bool is_current = state_ == State::kPrefilling && key.attempt == attempt_ &&
                          from == prefill_ && key.placement > placement_ &&
                          key.placement != kAllPlacements && !heard_decode_;
  if (!is_current) {
    out.push_back({from, Cancel{{id_, key.attempt, kAllPlacements}}});
    outcome.kind = Kind::kStale;
    return outcome;
  }
  if (!sink.has_value()) {
    out.push_back({from, PlacementRefused{key, "no live connection to this node"}});
    return outcome;
  }
  if (placement_ > Placement(0)) {
    out.push_back({decode_, Cancel{{id_, attempt_, key.placement - Placement(1)}}});
  }
  placement_ = key.placement;
  decode_ = *sink;
  out.push_back({from, PlacementNoted{key}});
  return outcome;
}

RequestMachine::Outcome RequestMachine::OnFailed(NodeId from, const Failed& message,
                                                 std::vector<Send>& out) {
  const bool by_prefill = state_ == State::kPrefilling && from == prefill_ && !heard_decode_ &&
                          message.key.attempt == attempt_;
  const bool by_decode = (state_ == State::kPrefilling || state_ == State::kDecoding) &&
                         placement_ > Placement(0) && from == decode_ && message.key == current();
  if (!by_prefill && !by_decode) return {.kind = Kind::kStale, .first = delivered()};
  return RetryAfter(message.reason, out);
}

RequestMachine::Outcome RequestMachine::OnRefused(NodeId from, const Refused& message,
                                                  std::vector<Send>& out) {
  if (state_ != State::kPrefilling || from != prefill_ || message.attempt != attempt_) {
    return {.kind = Kind::kStale, .first = delivered()};
  }
  return RetryAfter(message.reason, out);
}

RequestMachine::Outcome RequestMachine::RetryAfter(Reason reason, std::vector<Send>& out) {
  switch (reason) {
    case Reason::kPreempted:  // nobody's fault: these count as no attempt
    case Reason::kNoSink:
    case Reason::kFull:
    case Reason::kDraining:
      return Requeue(out);
    default:
      break;
  }
  fruitless_ = progressed_ ? 1 : fruitless_ + 1;
  if (fruitless_ < kFruitlessAttemptsMax) {
    Outcome outcome = Requeue(out);
    outcome.counted = true;
    return outcome;
  }
  switch (reason) {
    case Reason::kTooLong:
      return Fail(
          ResourceExhausted("no node has room for this request's {} tokens", Size(*tokens_)), out);
    case Reason::kModelMismatch:
      return Fail(FailedPrecondition("the nodes serve another model instance"), out);
    default:
      return Fail(
          Unavailable("gave up after {} attempts without progress; the last one ended as: {}",
                      fruitless_, ToString(reason)),
          out);
  }
}

RequestMachine::Outcome RequestMachine::OnNodeLost(NodeId node, Loss loss, std::vector<Send>& out) {
  const bool prefill_gone = state_ == State::kPrefilling && node == prefill_;
  const bool decode_gone = (state_ == State::kPrefilling || state_ == State::kDecoding) &&
                           placement_ > Placement(0) && node == decode_;
  if (!prefill_gone && !decode_gone) return {.first = delivered()};
  if (loss == Loss::kDied) {
    if (deaths_.size() >= static_cast<std::size_t>(kDeathsMax)) deaths_.erase(deaths_.begin());
    deaths_.push_back({node, delivered()});
  }
  return Requeue(out);
}

void RequestMachine::OnNodeBack(NodeId node) {
  std::erase_if(deaths_, [&](const Death& death) { return death.node == node; });
}

bool RequestMachine::suspected() const {
  return state_ == State::kQueued && deaths_.size() >= static_cast<std::size_t>(kDeathsMax) &&
         delivered().value() - deaths_.front().at.value() < kPoisonProgress;
}

bool RequestMachine::must_be_alone() const {
  constexpr std::size_t kShared{kDeathsShared};
  return !finished() && deaths_.size() >= kShared &&
         delivered().value() - deaths_[deaths_.size() - kShared].at.value() < kPoisonProgress;
}

RequestMachine::Outcome RequestMachine::GiveUpAsPoison(std::vector<Send>& out) {
  return Fail(Internal("{} nodes died while they worked on this request", kDeathsMax), out);
}

RequestMachine::Outcome RequestMachine::End(const Status& status, std::vector<Send>& out) {
  Outcome outcome{.kind = Kind::kEnded, .first = delivered()};
  if (finished()) return outcome;
  CancelAttempt(out);
  status_ = status;
  if (status.ok()) {
    state_ = State::kDone;
    finish_ = FinishReason::kStop;
  } else {
    state_ = status.code() == absl::StatusCode::kCancelled ? State::kCancelled : State::kFailed;
  }
  return outcome;
}

RequestMachine::Outcome RequestMachine::Fail(Status status, std::vector<Send>& out) {
  CancelAttempt(out);
  status_ = std::move(status);
  state_ = State::kFailed;
  return {.kind = Kind::kEnded, .first = delivered()};
}

RequestMachine::Outcome RequestMachine::Requeue(std::vector<Send>& out) {
  CancelAttempt(out);
  state_ = State::kQueued;
  return {.kind = Kind::kRequeued, .first = delivered()};
}

void RequestMachine::CancelAttempt(std::vector<Send>& out) {
  if (state_ == State::kQueued) return;
  const Cancel cancel{{id_, attempt_, kAllPlacements}};
  out.push_back({prefill_, cancel});
  if (placement_ > Placement(0) && decode_ != prefill_) out.push_back({decode_, cancel});
}

}  // namespace tandem::handoff
