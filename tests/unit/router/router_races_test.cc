// Races that PROTOCOL.md names, as the router sees them: the messages in that order.
#include <gtest/gtest.h>

#include "router/core/router_core.h"

namespace tandem::router {
namespace {

using handoff::Loss;
using handoff::NodeId;
using handoff::PlacementKey;
using handoff::Role;

constexpr NodeId kPrefill1{1}, kPrefill2{2}, kDecode1{11}, kDecode2{12};
const handoff::Incarnation kOwnLife{77};

// Two nodes of each kind, every pair usable; request 1 is submitted and at `prefill_`.
class RouterRaces : public ::testing::Test {
 protected:
  static RouterConfig Config() {
    RouterConfig config;
    config.incarnation = kOwnLife;
    return config;
  }
  void SetUp() override {
    Connect(kPrefill1, Role::kPrefill, "p1");
    Connect(kPrefill2, Role::kPrefill, "p2");
    Connect(kDecode1, Role::kDecode, "d1");
    Connect(kDecode2, Role::kDecode, "d2");
    Usable(kPrefill1, {"d1", "d2"});
    Usable(kPrefill2, {"d1", "d2"});
    RequestSpec spec;
    spec.id = {kOwnLife, 1};
    spec.tokens = std::make_shared<TokenIds>(TokenIds(20, TokenId(1)));
    spec.params.max_tokens = TokenCount(100);
    ASSERT_TRUE(core_.Submit(now_, std::move(spec), out_).ok());
    Follow();
  }
  void Connect(NodeId id, Role role, const std::string& name) {
    handoff::Hello hello;
    hello.role = role;
    hello.name = name;
    hello.layout.num_layers = hello.layout.num_kv_heads = hello.layout.head_dim = 1;
    hello.capacity.num_blocks = kv::BlockCount(100);
    core_.NodeConnected(now_, id, hello, out_);
  }
  void Usable(NodeId prefill, std::vector<std::string> sinks) {
    handoff::Heartbeat heartbeat;
    heartbeat.usable_sinks = std::move(sinks);
    core_.OnMessage(now_, prefill, heartbeat, out_);
  }
  // Takes the last Prefill sent: where it went and which attempt it is. False: none.
  bool Follow() {
    for (auto it = out_.rbegin(); it != out_.rend(); ++it) {
      const Send* send = std::get_if<Send>(&*it);
      const auto* m = send == nullptr ? nullptr : std::get_if<handoff::Prefill>(&send->message);
      if (m == nullptr) continue;
      prefill_ = send->to;
      attempt_ = m->attempt;
      first_ = m->first_position;
      out_.clear();
      return true;
    }
    out_.clear();
    return false;
  }
  PlacementKey Key(std::uint32_t placement) const {
    return {{kOwnLife, 1}, attempt_, handoff::Placement(placement)};
  }
  handoff::FirstToken TokenZero() const {
    handoff::FirstToken m;
    m.request = {kOwnLife, 1};
    m.attempt = attempt_;
    m.position = first_;
    m.token = TokenId(50);
    return m;
  }
  handoff::Tokens Stream(std::uint32_t placement, std::int32_t first, std::size_t count) const {
    handoff::Tokens m;
    m.key = Key(placement);
    m.first = Position(first);
    m.tokens = TokenIds(count, TokenId(50));
    m.logprobs.resize(count);
    return m;
  }
  template <typename M>
  const M* Sent(NodeId to) const {
    for (auto it = out_.rbegin(); it != out_.rend(); ++it) {
      const Send* send = std::get_if<Send>(&*it);
      if (send == nullptr || send->to != to) continue;
      if (const M* message = std::get_if<M>(&send->message)) return message;
    }
    return nullptr;
  }
  template <typename A>
  const A* Did() const {
    for (const Action& action : out_) {
      if (auto* found = std::get_if<A>(&action)) return found;
    }
    return nullptr;
  }

  Time now_ = Time{} + std::chrono::seconds(1);
  Actions out_;
  RouterCore core_{Config()};
  NodeId prefill_{0};
  handoff::Attempt attempt_{0};
  Position first_{0};
};

TEST_F(RouterRaces, DecodeNodesTokenOneBeforePrefillNodesTokenZero) {
  core_.OnMessage(now_, prefill_, handoff::Placed{Key(1), "d1"}, out_);
  core_.OnMessage(now_, kDecode1, Stream(1, 0, 2), out_);
  ASSERT_NE(Did<Deliver>(), nullptr);
  EXPECT_EQ(Did<Deliver>()->tokens.size(), 2u);
  out_.clear();
  core_.OnMessage(now_, prefill_, TokenZero(), out_);
  EXPECT_EQ(Did<Deliver>(), nullptr);
  EXPECT_EQ(core_.stats().repeats, 1);
  EXPECT_EQ(core_.stats().repeats_different, 0);
}

TEST_F(RouterRaces, PlacedAfterTheRequestIsDone) {
  core_.ClientGone(now_, {kOwnLife, 1}, out_);
  out_.clear();
  core_.OnMessage(now_, prefill_, handoff::Placed{Key(1), "d1"}, out_);
  ASSERT_NE(Sent<handoff::Cancel>(prefill_), nullptr);
  EXPECT_EQ(Sent<handoff::Cancel>(prefill_)->key, Key(handoff::kAllPlacements.value()));
}

TEST_F(RouterRaces, DecodeNodeLostBetweenPlacementNotedAndItsFirstTokens) {
  core_.OnMessage(now_, prefill_, TokenZero(), out_);
  core_.OnMessage(now_, prefill_, handoff::Placed{Key(1), "d1"}, out_);
  ASSERT_NE(Sent<handoff::PlacementNoted>(prefill_), nullptr);
  const NodeId old = prefill_;
  core_.NodeLost(now_, kDecode1, Loss::kDied, out_);
  EXPECT_NE(Sent<handoff::Cancel>(old), nullptr);
  ASSERT_TRUE(Follow());
  EXPECT_EQ(attempt_, handoff::Attempt(2));
  EXPECT_EQ(first_, Position(1));
}

TEST_F(RouterRaces, PlacedNamesANodeThatTheRouterHasLost) {
  core_.NodeLost(now_, kDecode2, Loss::kSilent, out_);
  out_.clear();
  core_.OnMessage(now_, prefill_, handoff::Placed{Key(1), "d2"}, out_);
  EXPECT_NE(Sent<handoff::PlacementRefused>(prefill_), nullptr);
  core_.OnMessage(now_, prefill_, handoff::Placed{Key(2), "d1"}, out_);
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
  core_.OnMessage(now_, prefill_, handoff::Placed{Key(1), "d2"}, out_);
  core_.OnMessage(now_, prefill_, TokenZero(), out_);
  out_.clear();
  core_.StopMatched(now_, {kOwnLife, 1}, Position(0), out_);
  EXPECT_NE(Sent<handoff::Cancel>(prefill_), nullptr);
  EXPECT_NE(Sent<handoff::Cancel>(kDecode2), nullptr);
  ASSERT_NE(Did<Finished>(), nullptr);
  EXPECT_EQ(Did<Finished>()->finish, sequence::FinishReason::kStop);
  out_.clear();
  core_.OnMessage(now_, kDecode2, Stream(1, 0, 3), out_);
  EXPECT_EQ(Did<Deliver>(), nullptr);
}

TEST_F(RouterRaces, PrefillNodeDiesBetweenFirstTokenAndHandOff) {
  core_.OnMessage(now_, prefill_, handoff::Placed{Key(1), "d1"}, out_);
  core_.OnMessage(now_, prefill_, TokenZero(), out_);
  const NodeId old = prefill_;
  core_.NodeLost(now_, old, Loss::kDied, out_);
  EXPECT_NE(Sent<handoff::Cancel>(kDecode1), nullptr) << "it may hold a reservation";
  ASSERT_TRUE(Follow());
  EXPECT_NE(prefill_, old);
  EXPECT_EQ(first_, Position(1));
}

TEST_F(RouterRaces, PrefillNodeRestartsAndGetsTheSamePort) {
  const NodeId old = prefill_;
  const std::string name = old == kPrefill1 ? "p1" : "p2";
  constexpr NodeId kNewLife{5};
  Connect(kNewLife, Role::kPrefill, name);  // before the old connection's end was seen
  ASSERT_TRUE(Follow()) << "the old life's request is tried again";
  EXPECT_NE(prefill_, old);
  EXPECT_NE(prefill_, kNewLife) << "its pairs are not probed yet";
  core_.NodeLost(now_, old, Loss::kDied, out_);
  EXPECT_FALSE(Follow()) << "the late end of the old connection changes nothing";
}

TEST_F(RouterRaces, BothWorkersDieAtOnce) {
  core_.OnMessage(now_, prefill_, handoff::Placed{Key(1), "d1"}, out_);
  core_.NodeLost(now_, prefill_, Loss::kDied, out_);
  ASSERT_TRUE(Follow());
  core_.NodeLost(now_, kDecode1, Loss::kDied, out_);
  EXPECT_EQ(Did<Finished>(), nullptr);
  EXPECT_EQ(core_.stats().requests, 1);
  EXPECT_EQ(attempt_, handoff::Attempt(2)) << "attempt 2 never was on d1";
}

TEST_F(RouterRaces, TheOnlyWorkerOfAKindDiesAndANewOneRegisters) {
  core_.NodeLost(now_, kDecode1, Loss::kDied, out_);
  core_.OnMessage(now_, prefill_, handoff::Placed{Key(1), "d2"}, out_);
  core_.NodeLost(now_, kDecode2, Loss::kDied, out_);
  EXPECT_FALSE(Follow());
  EXPECT_EQ(core_.stats().queued, 1);
  Connect(NodeId(15), Role::kDecode, "d1");
  Usable(kPrefill1, {"d1"});
  EXPECT_TRUE(Follow());
}

TEST_F(RouterRaces, TokenLimitReachedExactlyAtTheHandOff) {
  core_.OnMessage(now_, prefill_, handoff::Placed{Key(1), "d1"}, out_);
  core_.OnMessage(now_, kDecode1, Stream(1, 0, 99), out_);
  core_.NodeLost(now_, kDecode1, Loss::kSilent, out_);
  ASSERT_TRUE(Follow());
  EXPECT_EQ(first_, Position(99));                     // the last one: nothing to hand off
  core_.OnMessage(now_, prefill_, TokenZero(), out_);  // says nothing of an end
  ASSERT_NE(Did<Finished>(), nullptr);
  EXPECT_EQ(Did<Finished>()->finish, sequence::FinishReason::kLength);
}

TEST_F(RouterRaces, PreemptionUnderAFullPoolLosesNoPosition) {
  core_.OnMessage(now_, prefill_, handoff::Placed{Key(1), "d1"}, out_);
  core_.OnMessage(now_, kDecode1, Stream(1, 0, 5), out_);
  core_.OnMessage(now_, kDecode1, handoff::Failed{Key(1), handoff::Reason::kPreempted}, out_);
  ASSERT_TRUE(Follow());
  EXPECT_EQ(first_, Position(5));
}

TEST_F(RouterRaces, APoisonRequestKillsEveryWorkerItMeets) {
  std::int32_t deaths = 0;
  for (std::int32_t life = 100; Did<Finished>() == nullptr; ++life) {
    ASSERT_LT(deaths, 10);
    ++deaths;
    core_.NodeLost(now_, prefill_, Loss::kDied, out_);
    Connect(NodeId(life), Role::kPrefill, "p1");  // restarted
    Usable(NodeId(life), {"d1", "d2"});
    now_ += std::chrono::seconds(1);
    core_.OnTime(now_, out_);
    if (Did<Finished>() != nullptr) break;  // nobody came back to say that it lives
    ASSERT_TRUE(Follow());
  }
  EXPECT_EQ(deaths, handoff::kDeathsMax);
  EXPECT_EQ(Did<Finished>()->status.code(), absl::StatusCode::kInternal);
}

TEST_F(RouterRaces, RouterRestartsWhileOldSequencesRun) {
  RouterConfig config = Config();
  config.incarnation = handoff::Incarnation(78);
  RouterCore next(config);
  handoff::Hello hello;
  hello.role = Role::kDecode;
  hello.name = "d1";
  next.NodeConnected(now_, kDecode1, hello, out_);
  out_.clear();
  next.OnMessage(now_, kDecode1, Stream(1, 0, 3), out_);  // of the router before it
  EXPECT_EQ(Did<Deliver>(), nullptr);
  EXPECT_EQ(next.stats().stale_messages, 1);
}

}  // namespace
}  // namespace tandem::router
