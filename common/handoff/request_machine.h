// One request at the router: which attempt and placement speaks for it, which positions are out,
// when it is tried again and when it ends.
//
//   Queued ── Start ──► Prefilling(a) ── Tokens of (a,p) ──► Decoding(a,p)
//     ▲                    │                                   │
//     └── loss, Failed, Refused, gap: attempt a+1 ─────────────┘
//   any unfinished ──► Done (last position) | Failed (caps, deadline) | Cancelled (client, router)
//
//   Queued      at the router: for a usable pair, its turn or the end of its back-off
//   Prefilling  attempt a is with a prefill node, which may have had a placement noted
//   Decoding    tokens of (a,p) came; the loss of the prefill node matters no more
//   Done        the last position is out, or a stop string was complete
//   Failed      ended with an error
//   Cancelled   ended without one: nobody wants it any more
//
// Only (attempt, placement) decides what is current; the router takes tokens from one of them at a
// time and never goes back. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/handoff/events.h"
#include "common/handoff/ids.h"
#include "common/handoff/messages.h"

namespace tandem::handoff {

class RequestMachine {
 public:
  enum class State : std::uint8_t { kQueued, kPrefilling, kDecoding, kDone, kFailed, kCancelled };

  // What an event did. Positions that it put out lie in [Outcome::first, delivered()).
  enum class Kind : std::uint8_t {
    kStale,     // not of the current attempt and placement, or impossible: dropped
    kHandled,   // taken; maybe with new positions
    kRequeued,  // back in Queued, for another attempt
    kEnded,     // Done, Failed or Cancelled
  };
  struct Outcome {
    Kind kind = Kind::kHandled;
    Position first{0};  // of the new positions
    std::int32_t repeats = 0;
    std::int32_t repeats_different = 0;
    bool gap = false;
    bool counted = false;  // kRequeued after a failure that counts towards the cap of attempts
  };

  RequestMachine(RequestId id, TokenList prompt, sequence::SamplingParams params);

  // Attempt a+1 on `prefill_node`: the message, without hashes, ranked sinks and budget.
  // Requires: state() == kQueued.
  Prefill Start(NodeId prefill_node);

  // Each appends what must be sent; sends to nodes that are not connected go nowhere.
  Outcome OnFirstToken(NodeId from, const FirstToken& message);
  Outcome OnTokens(NodeId from, const Tokens& message, std::vector<Send>& out);
  // `sink`: the live node of that name, if there is one. Answered in any case.
  Outcome OnPlaced(NodeId from, const Placed& message, std::optional<NodeId> sink,
                   std::vector<Send>& out);
  Outcome OnFailed(NodeId from, const Failed& message, std::vector<Send>& out);
  Outcome OnRefused(NodeId from, const Refused& message, std::vector<Send>& out);
  Outcome OnNodeLost(NodeId node, Loss loss, std::vector<Send>& out);
  // The same life is connected again: it did not die.
  void OnNodeBack(NodeId node);
  // Queued, and kDeathsMax nodes seem to have died holding it, with little progress: it starts only
  // if one of them comes back within kVerdictWait. Otherwise: GiveUpAsPoison.
  bool suspected() const;
  // Several nodes died holding it, with little progress: it may be poison, or was only beside it.
  // It is tried on nodes that hold no other such request, so that further deaths tell which.
  bool must_be_alone() const;
  Outcome GiveUpAsPoison(std::vector<Send>& out);
  // The client left or a stop string matched (`status` OK): no position goes out any more.
  Outcome End(const Status& status, std::vector<Send>& out);

  State state() const { return state_; }
  bool finished() const { return state_ >= State::kDone; }
  // Failures that count, since the last progress.
  std::int32_t fruitless() const { return fruitless_; }
  RequestId id() const { return id_; }
  Attempt attempt() const { return attempt_; }
  PlacementKey current() const { return {id_, attempt_, placement_}; }  // placement 0: none noted
  bool involves(NodeId node) const;
  NodeId prefill_node() const { return prefill_; }
  NodeId decode_node() const { return decode_; }
  const sequence::SamplingParams& params() const { return params_; }

  Position delivered() const { return Position(Size(*tokens_) - prompt_size_); }
  // Of position `first` and later.
  std::span<const TokenId> TokensFrom(Position first) const;
  std::span<const float> LogprobsFrom(Position first) const;
  // Prompt and everything delivered.
  const TokenIds& tokens() const { return *tokens_; }

  // Of a finished one.
  const Status& status() const { return status_; }
  sequence::FinishReason finish() const { return finish_; }

 private:
  static std::int32_t Size(const TokenIds& t) { return static_cast<std::int32_t>(t.size()); }
  void Put(TokenId token, float logprob);
  void FinishIfLast(sequence::FinishReason reason, Outcome& outcome);
  void CancelAttempt(std::vector<Send>& out);
  Outcome Requeue(std::vector<Send>& out);
  Outcome Fail(Status status, std::vector<Send>& out);
  Outcome RetryAfter(Reason reason, std::vector<Send>& out);

  const RequestId id_;
  const sequence::SamplingParams params_;
  const std::int32_t prompt_size_;
  std::shared_ptr<TokenIds> tokens_;  // prompt + delivered; copied when an attempt shares it
  std::vector<float> logprobs_;       // [delivered]

  State state_ = State::kQueued;
  Attempt attempt_{0};
  NodeId prefill_{0};          // 0: none
  NodeId decode_{0};           // of placement_
  Placement placement_{0};     // noted; 0: none
  bool heard_decode_ = false;  // a token of this attempt came from a decode node
  bool progressed_ = false;    // … beyond the hand-off's token
  Position attempt_first_{0};

  std::int32_t fruitless_ = 0;
  struct Death {
    NodeId node;
    Position at;  // delivered()
  };
  std::vector<Death> deaths_;  // recent ones, of nodes that held it
  Status status_;
  sequence::FinishReason finish_ = sequence::FinishReason::kNone;
};

}  // namespace tandem::handoff
