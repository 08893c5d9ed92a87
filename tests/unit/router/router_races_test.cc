// Races that PROTOCOL.md names, as the router sees them: the messages in that order.
#include "tests/unit/router/router_core_fixture.h"

namespace tandem::router {
namespace {

using handoff::Loss;

// Every pair is usable; request 1 is submitted and at `prefill_`.
class RouterRaces : public RouterCoreTest {
 protected:
  void SetUp() override {
    ConnectAll();
    ASSERT_TRUE(Submit(1, {}, 100).ok());
    Follow();
  }
  // Takes the last Prefill sent: where it went and which attempt it is. False: none.
  bool Follow() {
    const auto sent = Prefills();
    out_.clear();
    if (sent.empty()) return false;
    prefill_ = sent.back().first;
    attempt_ = sent.back().second.attempt;
    first_ = sent.back().second.first_position;
    return true;
  }
  PlacementKey Key(std::uint32_t placement) const {
    return RouterCoreTest::Key(1, attempt_.value(), placement);
  }
  // The same token that a decode node would send for that position.
  handoff::FirstToken TokenZero() const {
    handoff::FirstToken m;
    m.request = {kLife, 1};
    m.attempt = attempt_;
    m.position = first_;
    m.token = TokenId(100 + first_.value());
    return m;
  }

  NodeId prefill_{0};
  handoff::Attempt attempt_{0};
  Position first_{0};
};

TEST_F(RouterRaces, DecodeNodesTokenOneBeforePrefillNodesTokenZero) {
  Place(prefill_, Key(1), "d1");
  Speak(kD1, Key(1), 0, 2);
  ASSERT_NE(Did<Deliver>(), nullptr);
  EXPECT_EQ(Did<Deliver>()->tokens.size(), 2u);
  out_.clear();
  core_.OnMessage(now_, prefill_, TokenZero(), out_);
  EXPECT_EQ(Did<Deliver>(), nullptr);
  EXPECT_EQ(core_.stats().repeats, 1);
  EXPECT_EQ(core_.stats().repeats_different, 0);
}

TEST_F(RouterRaces, PlacedAfterTheRequestIsDone) {
  core_.ClientGone(now_, {kLife, 1}, out_);
  out_.clear();
  Place(prefill_, Key(1), "d1");
  ASSERT_NE(Sent<handoff::Cancel>(prefill_), nullptr);
  EXPECT_EQ(Sent<handoff::Cancel>(prefill_)->key, Key(handoff::kAllPlacements.value()));
}

TEST_F(RouterRaces, DecodeNodeLostBetweenPlacementNotedAndItsFirstTokens) {
  core_.OnMessage(now_, prefill_, TokenZero(), out_);
  Place(prefill_, Key(1), "d1");
  ASSERT_NE(Sent<handoff::PlacementNoted>(prefill_), nullptr);
  const NodeId old = prefill_;
  Lose(kD1);
  EXPECT_NE(Sent<handoff::Cancel>(old), nullptr);
  ASSERT_TRUE(Follow());
  EXPECT_EQ(attempt_, handoff::Attempt(2));
  EXPECT_EQ(first_, Position(1));
}

TEST_F(RouterRaces, PlacedNamesANodeThatTheRouterHasLost) {
  Lose(kD2, Loss::kSilent);
  out_.clear();
  Place(prefill_, Key(1), "d2");
  EXPECT_NE(Sent<handoff::PlacementRefused>(prefill_), nullptr);
  Place(prefill_, Key(2), "d1");
  ASSERT_NE(Sent<handoff::PlacementNoted>(prefill_), nullptr);
  EXPECT_EQ(Sent<handoff::PlacementNoted>(prefill_)->key, Key(2));
}

TEST_F(RouterRaces, FirstTokenArrivesAfterTheAttemptWasReplaced) {
  const NodeId old = prefill_;
  const handoff::FirstToken late = TokenZero();
  core_.OnMessage(now_, old, handoff::Failed{Key(0), handoff::Reason::kInternal}, out_);
  now_ += std::chrono::seconds(1);  // its back-off is over
  core_.OnTime(now_, out_);
  ASSERT_TRUE(Follow());
  core_.OnMessage(now_, old, late, out_);
  EXPECT_EQ(Did<Deliver>(), nullptr);
  core_.OnMessage(now_, prefill_, TokenZero(), out_);
  EXPECT_NE(Did<Deliver>(), nullptr);
}

TEST_F(RouterRaces, StopStringCompletesOnTokenZero) {
  Place(prefill_, Key(1), "d2");
  core_.OnMessage(now_, prefill_, TokenZero(), out_);
  out_.clear();
  core_.StopMatched(now_, {kLife, 1}, Position(0), out_);
  EXPECT_NE(Sent<handoff::Cancel>(prefill_), nullptr);
  EXPECT_NE(Sent<handoff::Cancel>(kD2), nullptr);
  ASSERT_NE(End(), nullptr);
  EXPECT_EQ(End()->finish, sequence::FinishReason::kStop);
  out_.clear();
  Speak(kD2, Key(1), 0, 3);
  EXPECT_EQ(Did<Deliver>(), nullptr);
}

TEST_F(RouterRaces, PrefillNodeDiesBetweenFirstTokenAndHandOff) {
  Place(prefill_, Key(1), "d1");
  core_.OnMessage(now_, prefill_, TokenZero(), out_);
  const NodeId old = prefill_;
  Lose(old);
  EXPECT_NE(Sent<handoff::Cancel>(kD1), nullptr) << "it may hold a reservation";
  ASSERT_TRUE(Follow());
  EXPECT_NE(prefill_, old);
  EXPECT_EQ(first_, Position(1));
}

TEST_F(RouterRaces, PrefillNodeRestartsAndGetsTheSamePort) {
  const NodeId old = prefill_;
  const std::string name = old == kP1 ? "p1" : "p2";
  constexpr NodeId kNewLife{5};
  Connect(kNewLife, Role::kPrefill, name);  // before the old connection's end was seen
  ASSERT_TRUE(Follow()) << "the old life's request is tried again";
  EXPECT_NE(prefill_, old);
  EXPECT_NE(prefill_, kNewLife) << "its pairs are not probed yet";
  Lose(old);
  EXPECT_FALSE(Follow()) << "the late end of the old connection changes nothing";
}

TEST_F(RouterRaces, BothWorkersDieAtOnce) {
  Place(prefill_, Key(1), "d1");
  Lose(prefill_);
  ASSERT_TRUE(Follow());
  Lose(kD1);
  EXPECT_EQ(End(), nullptr);
  EXPECT_EQ(core_.stats().requests, 1);
  EXPECT_EQ(attempt_, handoff::Attempt(2)) << "attempt 2 never was on d1";
}

TEST_F(RouterRaces, TheOnlyWorkerOfAKindDiesAndANewOneRegisters) {
  Lose(kD1);
  Place(prefill_, Key(1), "d2");
  Lose(kD2);
  EXPECT_FALSE(Follow());
  EXPECT_EQ(core_.stats().queued, 1);
  Connect(NodeId(15), Role::kDecode, "d1");
  Usable(kP1, {"d1"});
  EXPECT_TRUE(Follow());
}

TEST_F(RouterRaces, TokenLimitReachedExactlyAtTheHandOff) {
  Place(prefill_, Key(1), "d1");
  Speak(kD1, Key(1), 0, 99);
  Lose(kD1, Loss::kSilent);
  ASSERT_TRUE(Follow());
  EXPECT_EQ(first_, Position(99));                     // the last one: nothing to hand off
  core_.OnMessage(now_, prefill_, TokenZero(), out_);  // says nothing of an end
  ASSERT_NE(End(), nullptr);
  EXPECT_EQ(End()->finish, sequence::FinishReason::kLength);
}

TEST_F(RouterRaces, PreemptionUnderAFullPoolLosesNoPosition) {
  Place(prefill_, Key(1), "d1");
  Speak(kD1, Key(1), 0, 5);
  core_.OnMessage(now_, kD1, handoff::Failed{Key(1), handoff::Reason::kPreempted}, out_);
  ASSERT_TRUE(Follow());
  EXPECT_EQ(first_, Position(5));
}

TEST_F(RouterRaces, APoisonRequestKillsEveryWorkerItMeets) {
  std::int32_t deaths = 0;
  for (std::int32_t life = 100; End() == nullptr; ++life) {
    ASSERT_LT(deaths, 10);
    ++deaths;
    Lose(prefill_);
    Connect(NodeId(life), Role::kPrefill, "p1");  // restarted
    Usable(NodeId(life), {"d1", "d2"});
    now_ += std::chrono::seconds(1);
    core_.OnTime(now_, out_);
    if (End() != nullptr) break;  // nobody came back to say that it lives
    ASSERT_TRUE(Follow());
  }
  EXPECT_EQ(deaths, handoff::kDeathsMax);
  EXPECT_EQ(End()->status.code(), absl::StatusCode::kInternal);
}

TEST_F(RouterRaces, RouterRestartsWhileOldSequencesRun) {
  RouterConfig config = Config();
  config.incarnation = handoff::Incarnation(78);
  RouterCore next(config);
  handoff::Hello hello;
  hello.role = Role::kDecode;
  hello.name = "d1";
  next.NodeConnected(now_, kD1, hello, out_);
  out_.clear();
  handoff::Tokens late{.key = Key(1)};  // of the router before it
  late.tokens = TokenIds(3, TokenId(100));
  late.logprobs.resize(3);
  next.OnMessage(now_, kD1, late, out_);
  EXPECT_EQ(Did<Deliver>(), nullptr);
  EXPECT_EQ(next.stats().stale_messages, 1);
}

}  // namespace
}  // namespace tandem::router
