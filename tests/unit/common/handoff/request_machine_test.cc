#include "common/handoff/request_machine.h"

#include <gtest/gtest.h>

namespace tandem::handoff {
namespace {

using Kind = RequestMachine::Kind;
using State = RequestMachine::State;
using sequence::FinishReason;

constexpr NodeId kP1{1}, kP2{2}, kD1{11}, kD2{12};

// A request with a prompt of 3 tokens whose token at position p is 100 + p.
class RequestTest : public ::testing::Test {
 protected:
  static RequestMachine Make(std::int32_t max_tokens) {
    sequence::SamplingParams params;
    params.max_tokens = TokenCount(max_tokens);
    return RequestMachine({Incarnation(9), 1},
                          std::make_shared<TokenIds>(TokenIds{TokenId(1), TokenId(2), TokenId(3)}),
                          params);
  }
  FirstToken First(std::int32_t position) const {
    FirstToken m;
    m.request = machine_.id();
    m.attempt = machine_.attempt();
    m.position = Position(position);
    m.token = TokenId(100 + position);
    return m;
  }
  Tokens Stream(std::uint32_t placement, std::int32_t first, std::int32_t count) const {
    Tokens m;
    m.key = Key(placement);
    m.first = Position(first);
    for (std::int32_t i = 0; i < count; ++i) {
      m.tokens.push_back(TokenId(100 + first + i));
      m.logprobs.push_back(0);
    }
    return m;
  }
  PlacementKey Key(std::uint32_t placement) const {
    return {machine_.id(), machine_.attempt(), Placement(placement)};
  }
  template <typename M>
  const M* Sent(std::size_t index) const {
    return index < out_.size() ? std::get_if<M>(&out_[index].message) : nullptr;
  }
  void Place(std::uint32_t placement, NodeId sink) {
    machine_.OnPlaced(kP1, Placed{Key(placement), "d"}, sink, out_);
  }

  RequestMachine machine_ = Make(10);
  std::vector<Send> out_;
};

TEST_F(RequestTest, DecodeNodesTokenOneBeforePrefillNodesTokenZero) {
  machine_.Start(kP1);
  Place(1, kD1);
  EXPECT_EQ(machine_.OnTokens(kD1, Stream(1, 0, 2), out_).kind, Kind::kHandled);
  EXPECT_EQ(machine_.delivered(), Position(2));
  EXPECT_EQ(machine_.state(), State::kDecoding);
  const auto late = machine_.OnFirstToken(kP1, First(0));
  EXPECT_EQ(late.kind, Kind::kHandled);
  EXPECT_EQ(late.repeats, 1);
  EXPECT_EQ(late.repeats_different, 0);
  EXPECT_EQ(machine_.delivered(), Position(2));
}

TEST_F(RequestTest, ARepeatThatDiffersIsNoticedAndNotDelivered) {
  machine_.Start(kP1);
  machine_.OnFirstToken(kP1, First(0));
  Place(1, kD1);
  Tokens other = Stream(1, 0, 2);
  other.tokens[0] = TokenId(55);
  const auto outcome = machine_.OnTokens(kD1, other, out_);
  EXPECT_EQ(outcome.repeats_different, 1);
  EXPECT_EQ(machine_.TokensFrom(Position(0))[0], TokenId(100));
}

TEST_F(RequestTest, DecodeNodeJoinedPlacementOneWhilePrefillNodePlacesTwo) {
  machine_.Start(kP1);
  Place(1, kD1);
  machine_.OnTokens(kD1, Stream(1, 0, 1), out_);  // joined: it speaks
  out_.clear();
  EXPECT_EQ(machine_.OnPlaced(kP1, Placed{Key(2), "d2"}, kD2, out_).kind, Kind::kStale);
  ASSERT_NE(Sent<Cancel>(0), nullptr);
  EXPECT_EQ(Sent<Cancel>(0)->key, (PlacementKey{machine_.id(), Attempt(1), kAllPlacements}));
  EXPECT_EQ(out_[0].to, kP1);
  EXPECT_EQ(machine_.OnTokens(kD1, Stream(1, 1, 1), out_).kind, Kind::kHandled);
}

TEST_F(RequestTest, TokensOfAReplacedPlacementAreStale) {
  machine_.Start(kP1);
  Place(1, kD1);
  out_.clear();
  Place(2, kD2);  // placement 1 was given up before anybody joined
  ASSERT_EQ(out_.size(), 2u);
  EXPECT_EQ(out_[0].to, kD1);
  ASSERT_NE(Sent<Cancel>(0), nullptr);
  EXPECT_EQ(Sent<Cancel>(0)->key, Key(1));
  EXPECT_NE(Sent<PlacementNoted>(1), nullptr);
  EXPECT_EQ(machine_.OnTokens(kD1, Stream(1, 0, 1), out_).kind, Kind::kStale);
  EXPECT_EQ(machine_.delivered(), Position(0));
}

TEST_F(RequestTest, PlacedAfterTheRequestIsDoneIsCancelled) {
  machine_.Start(kP1);
  FirstToken last = First(0);
  last.finish = FinishReason::kStop;
  EXPECT_EQ(machine_.OnFirstToken(kP1, last).kind, Kind::kEnded);
  machine_.OnPlaced(kP1, Placed{Key(1), "d"}, kD1, out_);
  ASSERT_NE(Sent<Cancel>(0), nullptr);
  EXPECT_EQ(machine_.finish(), FinishReason::kStop);
}

TEST_F(RequestTest, PlacedNamesANodeThatTheRouterHasLost) {
  machine_.Start(kP1);
  machine_.OnPlaced(kP1, Placed{Key(1), "gone"}, std::nullopt, out_);
  ASSERT_NE(Sent<PlacementRefused>(0), nullptr);
  EXPECT_EQ(machine_.current().placement, Placement(0));
  Place(2, kD2);
  EXPECT_EQ(machine_.current().placement, Placement(2));
}

TEST_F(RequestTest, DecodeNodeLostBetweenPlacementNotedAndItsFirstTokens) {
  machine_.Start(kP1);
  machine_.OnFirstToken(kP1, First(0));
  Place(1, kD1);
  out_.clear();
  EXPECT_EQ(machine_.OnNodeLost(kD1, Loss::kDied, out_).kind, Kind::kRequeued);
  ASSERT_EQ(out_.size(), 2u);
  EXPECT_NE(Sent<Cancel>(0), nullptr);
  const Prefill again = machine_.Start(kP2);
  EXPECT_EQ(again.attempt, Attempt(2));
  EXPECT_EQ(again.first_position, Position(1));
  EXPECT_EQ(again.tokens->size(), 4u);
  EXPECT_EQ(again.prompt_tokens, TokenCount(3));
}

TEST_F(RequestTest, FirstTokenArrivesAfterTheAttemptWasReplaced) {
  machine_.Start(kP1);
  const FirstToken old = First(0);
  machine_.OnNodeLost(kP1, Loss::kSilent, out_);
  EXPECT_EQ(machine_.OnFirstToken(kP1, old).kind, Kind::kStale);
  machine_.Start(kP1);
  EXPECT_EQ(machine_.OnFirstToken(kP1, old).kind, Kind::kStale);
  EXPECT_EQ(machine_.delivered(), Position(0));
}

TEST_F(RequestTest, PrefillNodeDiesBetweenFirstTokenAndHandOff) {
  machine_.Start(kP1);
  machine_.OnFirstToken(kP1, First(0));
  EXPECT_EQ(machine_.OnNodeLost(kP1, Loss::kDied, out_).kind, Kind::kRequeued);
  EXPECT_EQ(machine_.Start(kP2).first_position, Position(1));
  EXPECT_EQ(machine_.OnFirstToken(kP2, First(1)).kind, Kind::kHandled);
  EXPECT_EQ(machine_.delivered(), Position(2));
}

TEST_F(RequestTest, PrefillNodesLossDoesNotMatterOnceTheDecodeNodeSpeaks) {
  machine_.Start(kP1);
  Place(1, kD1);
  machine_.OnTokens(kD1, Stream(1, 0, 1), out_);
  EXPECT_EQ(machine_.OnNodeLost(kP1, Loss::kDied, out_).kind, Kind::kHandled);
  EXPECT_EQ(machine_.state(), State::kDecoding);
}

TEST_F(RequestTest, AGapIsALoss) {
  machine_.Start(kP1);
  Place(1, kD1);
  const auto outcome = machine_.OnTokens(kD1, Stream(1, 1, 1), out_);
  EXPECT_TRUE(outcome.gap);
  EXPECT_EQ(outcome.kind, Kind::kRequeued);
  EXPECT_EQ(machine_.delivered(), Position(0));
}

TEST_F(RequestTest, StopStringCompletesOnTokenZero) {
  machine_.Start(kP1);
  machine_.OnFirstToken(kP1, First(0));
  Place(1, kD1);
  out_.clear();
  EXPECT_EQ(machine_.End(OkStatus(), out_).kind, Kind::kEnded);
  ASSERT_EQ(out_.size(), 2u);
  EXPECT_EQ(out_[0].to, kP1);
  EXPECT_EQ(out_[1].to, kD1);
  EXPECT_EQ(machine_.state(), State::kDone);
  EXPECT_EQ(machine_.OnTokens(kD1, Stream(1, 0, 3), out_).kind, Kind::kStale);
}

TEST_F(RequestTest, TokenLimitReachedExactlyAtTheHandOff) {
  RequestMachine one = Make(1);
  one.Start(kP1);
  FirstToken only;
  only.request = one.id();
  only.attempt = Attempt(1);
  EXPECT_EQ(one.OnFirstToken(kP1, only).kind, Kind::kEnded);  // by itself
  EXPECT_EQ(one.finish(), FinishReason::kLength);
}

TEST_F(RequestTest, AnAttemptKeepsItsOwnTokensWhileMoreAreDelivered) {
  const Prefill first = machine_.Start(kP1);
  machine_.OnFirstToken(kP1, First(0));
  EXPECT_EQ(first.tokens->size(), 3u);
  EXPECT_EQ(machine_.tokens().size(), 4u);
}

TEST_F(RequestTest, ThreeFruitlessAttemptsFailButRefusalsForRoomDoNotCount) {
  for (Reason reason : {Reason::kFull, Reason::kNoSink, Reason::kDraining, Reason::kFull}) {
    machine_.Start(kP1);
    EXPECT_EQ(machine_.OnRefused(kP1, {machine_.id(), machine_.attempt(), reason}, out_).kind,
              Kind::kRequeued);
  }
  for (int i = 0; i < 2; ++i) {
    machine_.Start(kP1);
    EXPECT_EQ(machine_.OnFailed(kP1, {Key(0), Reason::kInternal}, out_).kind, Kind::kRequeued);
  }
  machine_.Start(kP1);
  EXPECT_EQ(machine_.OnFailed(kP1, {Key(0), Reason::kInternal}, out_).kind, Kind::kEnded);
  EXPECT_EQ(machine_.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RequestTest, APoisonRequestStopsAfterFourDeathsAndNotAfterStops) {
  for (int i = 0; i < 5; ++i) {
    machine_.Start(kP1);
    EXPECT_EQ(machine_.OnNodeLost(kP1, Loss::kSilent, out_).kind, Kind::kRequeued);
  }
  for (int i = 0; i < kDeathsMax; ++i) {
    EXPECT_FALSE(machine_.suspected());
    EXPECT_EQ(machine_.must_be_alone(), i >= kDeathsShared);
    machine_.Start(kP1);
    EXPECT_EQ(machine_.OnNodeLost(kP1, Loss::kDied, out_).kind, Kind::kRequeued);
  }
  ASSERT_TRUE(machine_.suspected());
  EXPECT_EQ(machine_.GiveUpAsPoison(out_).kind, Kind::kEnded);
  EXPECT_EQ(machine_.status().code(), absl::StatusCode::kInternal);
}

TEST_F(RequestTest, ANodeThatComesBackInTheSameLifeHasNotDied) {
  for (NodeId node : {kP1, NodeId(77), NodeId(78), kP1}) {
    machine_.Start(node);
    machine_.OnNodeLost(node, Loss::kDied, out_);
  }
  ASSERT_TRUE(machine_.suspected());
  machine_.OnNodeBack(kP1);
  EXPECT_FALSE(machine_.suspected());
  machine_.Start(kP1);
  machine_.OnNodeLost(kP1, Loss::kDied, out_);
  EXPECT_FALSE(machine_.suspected()) << "two deaths";
}

TEST_F(RequestTest, PreemptionCountsAsNoAttempt) {
  for (std::int32_t i = 0; i < 8; ++i) {
    machine_.Start(kP1);
    Place(1, kD1);
    machine_.OnTokens(kD1, Stream(1, i, 1), out_);
    EXPECT_EQ(machine_.OnFailed(kD1, {Key(1), Reason::kPreempted}, out_).kind, Kind::kRequeued);
  }
  EXPECT_EQ(machine_.delivered(), Position(8));
}

}  // namespace
}  // namespace tandem::handoff
