// One attempt at the prefill node: what is computed, and which sink is next.
//
//   Queued ──► Computing ──► Computed ──► Done
//
//   Queued     waits for room in the batch
//   Computing  in the batch; its blocks are pinned from here on
//   Computed   token 0 is sampled; waits for its placement to end well
//   Done       moved, or nothing to move, or given up
//
// Placements (one at a time; see PlacementMachine) run beside it. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "common/handoff/events.h"
#include "common/handoff/ids.h"
#include "common/handoff/messages.h"

namespace tandem::handoff {

class PrefillTask {
 public:
  enum class State : std::uint8_t { kQueued, kComputing, kComputed, kDone };

  // Requires: a message that passed Check.
  PrefillTask(const Prefill& message, NodeId router, Time now);
  // What a message must satisfy whatever the node: kNone, or why it is refused.
  static Reason Check(const Prefill& message);

  // `cached`: leading tokens whose KV is there. Requires: Queued; cached < num_tokens().
  void StartComputing(Time now, TokenCount cached);
  // A chunk was computed. Requires: Computing; no more than is left.
  void Advance(TokenCount tokens);
  // The token after the prompt. → Computed, or Done when it ends the request (nothing moves, or
  // what moved is released). Requires: Computing, all tokens computed.
  void OnFirstToken(Time now, TokenId token, float logprob);
  // → Done: moved, failed or cancelled.
  void Finish();

  // The best ranked sink that was not tried (one that was full may be tried again) and is usable;
  // nullopt when there is none, or the placements of an attempt are used up.
  template <typename IsUsable>
  std::optional<std::size_t> NextSink(IsUsable&& is_usable) const {
    if (placed_ >= kPlacementsMax.value()) return std::nullopt;
    for (std::size_t i = 0; i < sinks_.size(); ++i) {
      if (!sinks_[i].tried && is_usable(sinks_[i].name)) return i;
    }
    return std::nullopt;
  }
  // Takes the number for a placement on sink `index`.
  PlacementKey Place(std::size_t index);
  // The sink had no room: it may be asked again, and this counts as no placement.
  void OnFull(std::size_t index);
  // Why the placement ended badly: what Failed will say when no sink is left.
  void OnPlacementFailed(Reason reason) { failure_ = reason; }
  Reason failure() const { return failure_; }

  State state() const { return state_; }
  RequestId request() const { return request_; }
  Attempt attempt() const { return attempt_; }
  NodeId router() const { return router_; }
  const TokenList& tokens() const { return tokens_; }
  const HashList& hashes() const { return hashes_; }
  const sequence::SamplingParams& params() const { return params_; }
  TokenCount prompt_tokens() const { return prompt_tokens_; }
  TokenCount num_tokens() const { return TokenCount(static_cast<std::int32_t>(tokens_->size())); }
  TokenCount computed() const { return computed_; }
  TokenCount left() const { return num_tokens() - computed_; }
  Position first_position() const { return first_position_; }
  Time deadline() const { return deadline_; }
  Time arrived() const { return arrived_; }
  // Its KV has somewhere to go: token 0 is not the last one by the limit.
  bool moves() const { return first_position_.value() + 1 < params_.max_tokens.value(); }
  std::size_t num_sinks() const { return sinks_.size(); }
  const std::string& sink_name(std::size_t index) const { return sinks_[index].name; }
  // Of Computed and Done.
  TokenId first_token() const { return first_token_; }
  float first_logprob() const { return first_logprob_; }
  sequence::FinishReason finish() const { return finish_; }
  std::uint32_t placements() const { return placed_; }  // but for full ones
  PhaseTimes times;                                     // the core fills in the rest

 private:
  struct Sink {
    std::string name;
    bool tried = false;
  };
  const RequestId request_;
  const Attempt attempt_;
  const NodeId router_;
  const TokenList tokens_;
  const HashList hashes_;
  const sequence::SamplingParams params_;
  const TokenCount prompt_tokens_;
  const Position first_position_;
  const Time arrived_;
  const Time deadline_;
  std::vector<Sink> sinks_;
  State state_ = State::kQueued;
  Time started_{};
  TokenCount computed_{0};
  std::uint32_t placed_ = 0;
  Placement last_number_{0};
  Reason failure_ = Reason::kNoSink;
  TokenId first_token_;
  float first_logprob_ = 0;
  sequence::FinishReason finish_ = sequence::FinishReason::kNone;
};

}  // namespace tandem::handoff
