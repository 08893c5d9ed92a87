// Nodes that stand still or are not there, and requests that wait for a pair.
#include "tests/unit/router/router_core_fixture.h"

namespace tandem::router {
namespace {

using handoff::Role;
using std::chrono::milliseconds;
using std::chrono::seconds;

class NodeChangeTest : public RouterCoreTest {
 protected:
  // A heartbeat of a node whose step has run for `running`.
  void Beat(NodeId node, Duration running, std::vector<std::string> sinks = {},
            TokenCount queued = TokenCount(10), double per_token_s = 0.001) {
    handoff::Heartbeat heartbeat;
    heartbeat.step_number = 5;
    heartbeat.step_running_for = running;
    heartbeat.queued_tokens = queued;
    heartbeat.running = 1;
    heartbeat.free_blocks = kv::BlockCount(100);
    heartbeat.fit = {.fixed_s = 0.01, .per_token_s = per_token_s, .per_pair_s = 0};
    heartbeat.usable_sinks = std::move(sinks);
    core_.OnMessage(now_, node, heartbeat, out_);
  }
};

TEST_F(NodeChangeTest, AStuckDecodeNodesStreamsMoveAndItGetsNothingNew) {
  ConnectAll();
  ASSERT_TRUE(Submit(1).ok());
  const NodeId p = Prefills()[0].first;
  Place(p, Key(1, 1), "d1");
  Speak(kD1, Key(1, 1), 0, 2);
  Beat(kD1, milliseconds(9900));
  EXPECT_EQ(Prefills().size(), 1u);
  Beat(kD1, milliseconds(10100));
  ASSERT_EQ(Prefills().size(), 2u);
  EXPECT_EQ(Prefills()[1].second.ranked_sinks, std::vector<std::string>{"d2"});
  EXPECT_EQ(Prefills()[1].second.first_position, Position(2));
  EXPECT_NE(Sent<handoff::Cancel>(kD1), nullptr) << "it may wake up";
  EXPECT_EQ(core_.stats().usable_pairs, 2);
  EXPECT_EQ(core_.stats().nodes_stuck, 1);
  EXPECT_TRUE(core_.nodes()[2].stuck);
  const NodeId next = Prefills()[1].first;
  Place(next, Key(1, 2), "d1");  // the prefill node does not know yet
  EXPECT_NE(Sent<handoff::PlacementRefused>(next), nullptr);
  const auto changes = Notes<NodeChanged>();
  EXPECT_EQ(changes.back().what, NodeChanged::What::kStuck);
  EXPECT_EQ(changes.back().requests, 1);
}

TEST_F(NodeChangeTest, ALongPrefillIsNoDeath) {
  ConnectAll();
  ASSERT_TRUE(Submit(1).ok());
  const NodeId p = Prefills()[0].first;
  // 4000 tokens at 10 ms each: a step of 40 s is what was predicted.
  Beat(p, seconds(60), {"d1", "d2"}, TokenCount(4000), 0.01);
  EXPECT_EQ(Prefills().size(), 1u);
  EXPECT_EQ(core_.stats().nodes_stuck, 0);
  Beat(p, seconds(801), {"d1", "d2"}, TokenCount(4000), 0.01);
  EXPECT_EQ(core_.stats().nodes_stuck, 1);
  EXPECT_EQ(Prefills().size(), 2u);
  EXPECT_NE(Prefills()[1].first, p);
}

TEST_F(NodeChangeTest, ANodeThatMovesAgainIsUsedAgain) {
  Connect(kP1, Role::kPrefill, "p1");
  Connect(kD1, Role::kDecode, "d1");
  Usable(kP1, {"d1"});
  Beat(kP1, seconds(11), {"d1"});
  EXPECT_FALSE(core_.ready());
  ASSERT_TRUE(Submit(1).ok());
  EXPECT_TRUE(Prefills().empty());
  Beat(kP1, milliseconds(1), {"d1"});
  EXPECT_TRUE(core_.ready());
  EXPECT_EQ(Prefills().size(), 1u);
  EXPECT_EQ(Notes<NodeChanged>().back().what, NodeChanged::What::kMovesAgain);
}

TEST_F(NodeChangeTest, AStuckPrefillNodeKeepsNoStreamThatIsBeingDecoded) {
  ConnectAll();
  ASSERT_TRUE(Submit(1).ok());
  const NodeId p = Prefills()[0].first;
  Place(p, Key(1, 1), "d1");
  Speak(kD1, Key(1, 1), 0, 2);
  Beat(p, seconds(11), {"d1", "d2"});
  EXPECT_EQ(Prefills().size(), 1u);
  Speak(kD1, Key(1, 1), 2, 1);
  EXPECT_EQ(core_.stats().positions, 3);
}

TEST_F(NodeChangeTest, ARequestThatStopsEveryNodeIsContained) {
  Connect(kD1, Role::kDecode, "d1");
  ASSERT_TRUE(Submit(1).ok());
  for (std::int32_t i = 1; i <= 5; ++i) {
    Connect(NodeId(i), Role::kPrefill, "p" + std::to_string(i));
    Usable(NodeId(i), {"d1"});
    Beat(NodeId(i), seconds(11), {"d1"});
  }
  EXPECT_EQ(Prefills().size(), 4u);
  now_ += handoff::kVerdictWait;
  core_.OnTime(now_, out_);
  ASSERT_NE(End(), nullptr);
  EXPECT_EQ(Prefills().size(), 4u);
}

TEST_F(NodeChangeTest, SaysThatNoPairWorksAndThatOneDoes) {
  ConnectAll();
  EXPECT_TRUE(core_.ready());
  Lose(kD1);
  EXPECT_TRUE(core_.ready());
  Lose(kD2);
  EXPECT_FALSE(core_.ready());
  Connect(NodeId(13), Role::kDecode, "d1");
  EXPECT_FALSE(core_.ready()) << "no probe of its new life has succeeded yet";
  Usable(kP1, {"d1"});
  EXPECT_TRUE(core_.ready());
}

class NoPairTest : public ::testing::Test {
 protected:
  static RouterConfig Config() {
    RouterConfig config;
    config.incarnation = kLife;
    config.no_pair_wait = seconds(10);
    return config;
  }
  void Submit(std::uint64_t number) {
    RequestSpec spec;
    spec.id = {kLife, number};
    spec.tokens = std::make_shared<TokenIds>(TokenIds(20, TokenId(1)));
    spec.params.max_tokens = TokenCount(10);
    ASSERT_TRUE(core_.Submit(now_, std::move(spec), out_).ok());
  }
  void Connect(NodeId id, Role role, const std::string& name) {
    handoff::Hello hello;
    hello.role = role;
    hello.name = name;
    hello.capacity.num_blocks = kv::BlockCount(100);
    core_.NodeConnected(now_, id, hello, out_);
  }
  void PairWorks() {
    Connect(kP1, Role::kPrefill, "p1");
    Connect(kD1, Role::kDecode, "d1");
    handoff::Heartbeat heartbeat;
    heartbeat.usable_sinks = {"d1"};
    core_.OnMessage(now_, kP1, heartbeat, out_);
  }
  std::vector<std::uint64_t> Ended() const {
    std::vector<std::uint64_t> numbers;
    for (const Action& action : out_) {
      const Finished* finished = std::get_if<Finished>(&action);
      if (finished == nullptr) continue;
      EXPECT_EQ(finished->status.code(), absl::StatusCode::kUnavailable);
      numbers.push_back(finished->request.number);
    }
    return numbers;
  }

  Time now_ = At(100'000);
  Actions out_;
  RouterCore core_{Config()};
};

TEST_F(NoPairTest, ANewRequestWaitsForAPairButNotForEver) {
  Submit(1);
  now_ += seconds(4);
  Submit(2);
  EXPECT_EQ(core_.NextDeadline(), now_ + seconds(6));
  now_ += seconds(6);
  core_.OnTime(now_, out_);
  EXPECT_EQ(Ended(), std::vector<std::uint64_t>{1});
  PairWorks();
  EXPECT_EQ(core_.stats().queued, 0) << "the second has begun";
  EXPECT_EQ(core_.NextDeadline(), kNever);
}

TEST_F(NoPairTest, TheWaitCountsFromTheLossOfTheLastPair) {
  PairWorks();
  now_ += seconds(100);
  core_.NodeLost(now_, kD1, handoff::Loss::kDied, out_);
  Submit(1);
  EXPECT_EQ(core_.NextDeadline(), now_ + seconds(10));
}

TEST_F(NoPairTest, OneThatWasBegunWaitsOn) {
  PairWorks();
  Submit(1);
  core_.NodeLost(now_, kP1, handoff::Loss::kDied, out_);
  EXPECT_EQ(core_.NextDeadline(), kNever);
  now_ += seconds(60);
  core_.OnTime(now_, out_);
  EXPECT_TRUE(Ended().empty());
  PairWorks();
  EXPECT_EQ(core_.stats().queued, 0);
}

}  // namespace
}  // namespace tandem::router
