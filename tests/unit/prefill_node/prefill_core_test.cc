#include "prefill_node/core/prefill_core.h"

#include <gtest/gtest.h>

namespace tandem::prefill_node {
namespace {

using handoff::NodeId;
using handoff::PlacementKey;
using handoff::Reason;

constexpr NodeId kRouter{1}, kD1{2}, kD2{3};
const handoff::Incarnation kRouterLife{77};
Time At(std::int64_t ms) { return Time{} + std::chrono::milliseconds(ms); }

// One layer, blocks of 16 tokens; prompts of 20 tokens (2 blocks); sinks d1 and d2 are usable.
class PrefillCoreTest : public ::testing::Test {
 protected:
  static PrefillConfig Config() {
    PrefillConfig config;
    config.name = "p";
    config.incarnation = handoff::Incarnation(5);
    config.layout.num_layers = 1;
    config.layout.num_kv_heads = 1;
    config.layout.head_dim = 8;
    config.num_blocks = kv::BlockCount(20);
    config.max_context = TokenCount(320);
    return config;
  }
  void SetUp() override {
    handoff::Hello hello;
    hello.incarnation = kRouterLife;
    core_.RouterConnected(now_, kRouter, hello, out_);
    ConnectSink(kD1, "d1");
    ConnectSink(kD2, "d2");
    out_.clear();
  }
  void ConnectSink(NodeId id, const std::string& name) {
    handoff::Hello hello;
    hello.name = name;
    core_.SinkConnected(now_, id, hello, out_);
    const std::uint64_t nonce = Last<StartProbe>()->nonce;
    core_.ProbeWritten(now_, id, nonce, ByteCount(1), 1, out_);
    core_.OnMessage(now_, id, handoff::Probed{nonce, true}, out_);
  }
  PlacementKey Key(std::uint32_t placement, std::uint64_t request = 1) const {
    return {{kRouterLife, request}, handoff::Attempt(1), handoff::Placement(placement)};
  }
  void Submit(std::int32_t max_tokens = 5, std::uint64_t request = 1) {
    handoff::Prefill m;
    m.request = {kRouterLife, request};
    m.attempt = handoff::Attempt(1);
    m.tokens = std::make_shared<TokenIds>(TokenIds(20, TokenId(1)));
    m.prompt_tokens = TokenCount(20);
    m.params.max_tokens = TokenCount(max_tokens);
    m.params.stop_token_ids = {TokenId(9)};
    m.ranked_sinks = {"d1", "d2"};
    core_.OnMessage(now_, kRouter, m, out_);
    if (const StartStep* start = Last<StartStep>()) step_ = *start;
  }
  void AnswerReserve(NodeId sink, std::uint32_t placement) {
    handoff::Reserved m;
    m.key = Key(placement);
    m.blocks = {kv::BlockId(3), kv::BlockId(4), kv::BlockId(5)};
    m.lease = handoff::kLease;
    core_.OnMessage(now_, sink, m, out_);
  }
  void FinishStep(TokenId token = TokenId(8)) {
    std::vector<sequence::SampledToken> results;
    for (const auto& slice : step_.batch->slices) results.push_back({slice.tag, token, 0});
    core_.StepDone(now_, step_.step, results, std::chrono::milliseconds(1), out_);
  }
  void Fence() {
    const Push push = *Last<Push>();
    core_.PushFenced(now_, push.ticket, push.bytes, 1, out_);
  }
  // Up to HandOff on d1.
  void HandOffOne() {
    Submit();
    AnswerReserve(kD1, 1);
    core_.OnMessage(now_, kRouter, handoff::PlacementNoted{Key(1)}, out_);
    FinishStep();
    Fence();
  }
  template <typename A>
  const A* Last() const {
    for (auto it = out_.rbegin(); it != out_.rend(); ++it) {
      if (const A* action = std::get_if<A>(&*it)) return action;
    }
    return nullptr;
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
  void ExpectNothingLeft() {
    const PrefillStats s = core_.stats();
    EXPECT_EQ(s.tasks + s.placements + s.draining + s.leases + s.waiting_room, 0);
    EXPECT_EQ(s.blocks.used, kv::BlockCount(0));
    EXPECT_EQ(s.outstanding_bytes, 0);
  }

  Time now_ = At(1000);
  Actions out_;
  StartStep step_;
  PrefillCore core_{Config()};
};

TEST_F(PrefillCoreTest, ReservesWhenItEntersTheBatchAndHandsOffAfterFenceAndNoted) {
  Submit();
  ASSERT_NE(Sent<handoff::Reserve>(kD1), nullptr);
  EXPECT_EQ(Sent<handoff::Reserve>(kD1)->tokens, TokenCount(20));
  AnswerReserve(kD1, 1);
  EXPECT_NE(Sent<handoff::Placed>(kRouter), nullptr);
  core_.LayerComputed(now_, step_.step, kv::Layer(0), out_);
  ASSERT_NE(Last<Push>(), nullptr);
  EXPECT_EQ(Last<Push>()->num_tokens, TokenCount(20));
  Fence();
  ASSERT_NE(Sent<handoff::LayerDone>(kD1), nullptr);
  FinishStep();
  EXPECT_NE(Sent<handoff::FirstToken>(kRouter), nullptr);
  EXPECT_EQ(Sent<handoff::HandOff>(kD1), nullptr);  // not noted yet
  core_.OnMessage(now_, kRouter, handoff::PlacementNoted{Key(1)}, out_);
  ASSERT_NE(Sent<handoff::HandOff>(kD1), nullptr);
  EXPECT_EQ(Sent<handoff::HandOff>(kD1)->total_layer_blocks, 2);
  EXPECT_GT(core_.stats().blocks.used, kv::BlockCount(0));  // pinned until Joined
  core_.OnMessage(now_, kD1, handoff::Joined{Key(1)}, out_);
  EXPECT_NE(Sent<handoff::TransferReport>(kRouter), nullptr);
  ExpectNothingLeft();
}

TEST_F(PrefillCoreTest, AnswerThatComesLateIsCaughtUpWith) {
  Submit();
  FinishStep();
  EXPECT_EQ(Last<Push>(), nullptr);
  AnswerReserve(kD1, 1);
  ASSERT_NE(Last<Push>(), nullptr);
  EXPECT_EQ(Last<Push>()->num_tokens, TokenCount(20));
}

TEST_F(PrefillCoreTest, OneTokenMovesNothing) {
  Submit(1);
  EXPECT_EQ(Sent<handoff::Reserve>(kD1), nullptr);
  FinishStep();
  EXPECT_EQ(Sent<handoff::FirstToken>(kRouter)->finish, sequence::FinishReason::kLength);
  ExpectNothingLeft();
}

TEST_F(PrefillCoreTest, TokenZeroStopsReleases) {
  Submit();
  AnswerReserve(kD1, 1);
  FinishStep(TokenId(9));
  EXPECT_EQ(Sent<handoff::FirstToken>(kRouter)->finish, sequence::FinishReason::kStop);
  ASSERT_NE(Sent<handoff::Release>(kD1), nullptr);
  EXPECT_EQ(Sent<handoff::HandOff>(kD1), nullptr);
  ExpectNothingLeft();
}

TEST_F(PrefillCoreTest, CancelBetweenReserveAndReserved) {
  Submit();
  core_.OnMessage(now_, kRouter, handoff::Cancel{Key(0xffffffff)}, out_);
  EXPECT_EQ(Sent<handoff::Cancelled>(kRouter), nullptr);  // the step computes it still
  EXPECT_EQ(Sent<handoff::Release>(kD1), nullptr);
  AnswerReserve(kD1, 1);
  EXPECT_NE(Sent<handoff::Release>(kD1), nullptr);
  FinishStep();
  EXPECT_NE(Sent<handoff::Cancelled>(kRouter), nullptr);
  EXPECT_EQ(Sent<handoff::FirstToken>(kRouter), nullptr);
  ExpectNothingLeft();
}

TEST_F(PrefillCoreTest, CancelBeforePrefillWasTakenFromTheQueue) {
  Submit(5, 1);
  Submit(5, 2);  // waits: a step runs
  core_.OnMessage(now_, kRouter, handoff::Cancel{Key(0xffffffff, 2)}, out_);
  EXPECT_NE(Sent<handoff::Cancelled>(kRouter), nullptr);
  EXPECT_EQ(core_.stats().queued, 0);
}

TEST_F(PrefillCoreTest, CancelAfterTheFenceBeforeHandOff) {
  Submit();
  AnswerReserve(kD1, 1);
  FinishStep();
  Fence();
  core_.OnMessage(now_, kRouter, handoff::Cancel{Key(0xffffffff)}, out_);
  EXPECT_NE(Sent<handoff::Release>(kD1), nullptr);
  core_.OnMessage(now_, kRouter, handoff::PlacementNoted{Key(1)}, out_);  // late
  EXPECT_EQ(Sent<handoff::HandOff>(kD1), nullptr);
  ExpectNothingLeft();
}

TEST_F(PrefillCoreTest, BlocksStayPinnedWhileAWriteIsOutstanding) {
  Submit();
  AnswerReserve(kD1, 1);
  FinishStep();
  core_.OnMessage(now_, kRouter, handoff::Cancel{Key(0xffffffff)}, out_);
  EXPECT_NE(Last<AbortPush>(), nullptr);
  EXPECT_EQ(Sent<handoff::Release>(kD1), nullptr);
  EXPECT_EQ(core_.stats().blocks.used, kv::BlockCount(2));
  core_.PushDrained(now_, Key(1), out_);
  EXPECT_NE(Sent<handoff::Release>(kD1), nullptr);
  ExpectNothingLeft();
}

TEST_F(PrefillCoreTest, RevokeIsAnsweredWhenDrainedAndPlacedAgainWithoutComputing) {
  Submit();
  AnswerReserve(kD1, 1);
  FinishStep();
  core_.OnMessage(now_, kD1, handoff::Revoke{Key(1)}, out_);
  EXPECT_EQ(Sent<handoff::Release>(kD1), nullptr);
  ASSERT_NE(Sent<handoff::Reserve>(kD2), nullptr);
  EXPECT_EQ(Sent<handoff::Reserve>(kD2)->key, Key(2));
  core_.PushDrained(now_, Key(1), out_);
  EXPECT_NE(Sent<handoff::Release>(kD1), nullptr);
  AnswerReserve(kD2, 2);
  EXPECT_EQ(Last<Push>()->key, Key(2));
  EXPECT_EQ(core_.stats().computed_tokens, 20);
  core_.OnMessage(now_, kD1, handoff::Revoke{Key(9)}, out_);  // unknown: answered all the same
  EXPECT_EQ(Sent<handoff::Release>(kD1)->key, Key(9));
}

TEST_F(PrefillCoreTest, JoinedLostWithTheConnectionIsAskedForAgain) {
  HandOffOne();
  core_.SinkLost(At(2000), kD1, out_);
  EXPECT_EQ(core_.NextDeadline(), At(3000));
  out_.clear();
  now_ = At(2500);
  ConnectSink(kD1, "d1");
  ASSERT_NE(Sent<handoff::HandOff>(kD1), nullptr);
  EXPECT_EQ(Sent<handoff::Reserve>(kD2), nullptr);
  core_.OnMessage(now_, kD1, handoff::Joined{Key(1)}, out_);
  ExpectNothingLeft();
}

TEST_F(PrefillCoreTest, ASinkThatDoesNotComeBackIsReplacedAfterASecond) {
  HandOffOne();
  core_.SinkLost(At(2000), kD1, out_);
  core_.OnTime(At(2999), out_);
  EXPECT_EQ(Sent<handoff::Reserve>(kD2), nullptr);
  core_.OnTime(At(3000), out_);
  ASSERT_NE(Sent<handoff::Reserve>(kD2), nullptr);
  EXPECT_EQ(Sent<handoff::Reserve>(kD2)->key, Key(2));
}

TEST_F(PrefillCoreTest, ANewLifeOfTheSinkIsNotAskedForTheOldOnesSequence) {
  HandOffOne();
  core_.SinkLost(now_, kD1, out_);
  out_.clear();
  ConnectSink(NodeId(9), "d1");  // the same name, another incarnation
  EXPECT_EQ(Sent<handoff::HandOff>(NodeId(9)), nullptr);
  EXPECT_NE(Sent<handoff::Reserve>(kD2), nullptr);
}

TEST_F(PrefillCoreTest, StopsPostingBeforeTheLeaseEndsUnlessRenewed) {
  Submit();
  AnswerReserve(kD1, 1);
  core_.OnTime(At(2000), out_);
  ASSERT_NE(Sent<handoff::Renew>(kD1), nullptr);
  core_.OnMessage(At(2100), kD1, handoff::RenewAnswer{}, out_);
  core_.OnTime(At(5950), out_);  // the first lease would have ended
  EXPECT_EQ(core_.stats().placements, 1);
  EXPECT_EQ(Sent<handoff::Reserve>(kD2), nullptr);
  core_.OnTime(At(6900), out_);
  EXPECT_EQ(core_.stats().leases_expired, 1);
  EXPECT_NE(Sent<handoff::Release>(kD1), nullptr);
  EXPECT_NE(Sent<handoff::Reserve>(kD2), nullptr);
}

TEST_F(PrefillCoreTest, FullSinksAreWaitedForAndNotCounted) {
  Submit();
  core_.OnMessage(now_, kD1, handoff::ReserveRefused{Key(1), Reason::kFull, kv::BlockCount(0)},
                  out_);
  core_.OnMessage(now_, kD2, handoff::ReserveRefused{Key(2), Reason::kFull, kv::BlockCount(0)},
                  out_);
  EXPECT_EQ(core_.stats().waiting_room, 1);
  EXPECT_EQ(Sent<handoff::Failed>(kRouter), nullptr);
  handoff::Heartbeat heartbeat;
  heartbeat.free_blocks = kv::BlockCount(1);
  core_.OnMessage(now_, kD1, heartbeat, out_);
  EXPECT_EQ(core_.stats().waiting_room, 1);
  heartbeat.free_blocks = kv::BlockCount(2);
  core_.OnMessage(now_, kD1, heartbeat, out_);
  EXPECT_EQ(Sent<handoff::Reserve>(kD1)->key, Key(3));
}

TEST_F(PrefillCoreTest, FailsWhenNoSinkIsLeft) {
  Submit();
  core_.OnMessage(now_, kD1, handoff::ReserveRefused{Key(1), Reason::kNoRouter, {}}, out_);
  core_.OnMessage(now_, kD2, handoff::ReserveRefused{Key(2), Reason::kDraining, {}}, out_);
  ASSERT_NE(Sent<handoff::Failed>(kRouter), nullptr);
  EXPECT_EQ(Sent<handoff::Failed>(kRouter)->reason, Reason::kNoSink);
  FinishStep();
  ExpectNothingLeft();
}

TEST_F(PrefillCoreTest, DrainIsAnnouncedAndTakesNothingNewAndEndsIdle) {
  EXPECT_FALSE(core_.drained());
  core_.OnMessage(now_, kRouter, handoff::Drain{std::chrono::seconds(10)}, out_);
  for (NodeId peer : {kRouter, kD1, kD2}) {
    ASSERT_NE(Sent<handoff::Heartbeat>(peer), nullptr);
    EXPECT_TRUE(Sent<handoff::Heartbeat>(peer)->draining);
  }
  EXPECT_TRUE(core_.drained());
  Submit();
  ASSERT_NE(Sent<handoff::Refused>(kRouter), nullptr);
  EXPECT_EQ(Sent<handoff::Refused>(kRouter)->reason, Reason::kDraining);
  EXPECT_EQ(Sent<handoff::Accepted>(kRouter), nullptr);
}

// Pinned blocks are kept until the sink has them.
TEST_F(PrefillCoreTest, DrainOfPWithPinnedBlocksWaitsForJoined) {
  HandOffOne();
  core_.BeginDrain(now_, std::chrono::seconds(10), out_);
  EXPECT_FALSE(core_.drained());
  EXPECT_EQ(core_.stats().blocks.used, kv::BlockCount(2));
  core_.OnMessage(now_ + std::chrono::seconds(9), kD1, handoff::Joined{Key(1)}, out_);
  EXPECT_EQ(Sent<handoff::Failed>(kRouter), nullptr);
  EXPECT_TRUE(core_.drained());
  ExpectNothingLeft();
}

TEST_F(PrefillCoreTest, DrainMovesWhatIsLeftWhenItsBudgetEnds) {
  Submit();
  Submit(5, 2);
  core_.BeginDrain(now_, std::chrono::seconds(3), out_);
  EXPECT_EQ(Sent<handoff::Failed>(kRouter), nullptr);
  EXPECT_LE(core_.NextDeadline(), now_ + std::chrono::seconds(3));
  core_.OnTime(now_ + std::chrono::seconds(3), out_);
  int failed = 0;
  for (const Action& action : out_) {
    const Send* send = std::get_if<Send>(&action);
    const auto* m = send == nullptr ? nullptr : std::get_if<handoff::Failed>(&send->message);
    if (m == nullptr) continue;
    EXPECT_EQ(m->reason, Reason::kDraining);
    ++failed;
  }
  EXPECT_EQ(failed, 2);
  EXPECT_FALSE(core_.drained()) << "a step runs on their blocks";
  FinishStep();
  EXPECT_TRUE(core_.drained());
}

TEST_F(PrefillCoreTest, ASecondDrainHurriesAndNeverSlows) {
  Submit();
  core_.BeginDrain(now_, std::chrono::seconds(10), out_);
  core_.BeginDrain(now_, std::chrono::seconds(60), out_);
  EXPECT_LE(core_.NextDeadline(), now_ + std::chrono::seconds(10));
  core_.BeginDrain(now_, Duration(0), out_);
  ASSERT_NE(Sent<handoff::Failed>(kRouter), nullptr);
  FinishStep();
  EXPECT_TRUE(core_.drained());
}

TEST_F(PrefillCoreTest, AnOutstandingWriteHoldsADrainForItsGraceAtMost) {
  Submit();
  AnswerReserve(kD1, 1);
  FinishStep();
  core_.BeginDrain(now_, Duration(0), out_);
  EXPECT_EQ(core_.stats().draining, 1);
  EXPECT_FALSE(core_.drained());
  EXPECT_EQ(Sent<handoff::Release>(kD1), nullptr);
  core_.OnTime(now_ + handoff::kDrainGrace, out_);
  EXPECT_TRUE(core_.drained());
}

TEST_F(PrefillCoreTest, ADrainingSinkGetsNoNewPlacement) {
  handoff::Heartbeat heartbeat;
  heartbeat.draining = true;
  core_.OnMessage(now_, kD1, heartbeat, out_);
  Submit();
  EXPECT_EQ(Sent<handoff::Reserve>(kD1), nullptr);
  EXPECT_NE(Sent<handoff::Reserve>(kD2), nullptr);
}

TEST_F(PrefillCoreTest, ProgressAgesWithTheEnginesStepAlone) {
  EXPECT_EQ(core_.progress(now_).running_for, Duration(0));
  Submit();
  // Whatever else it is told meanwhile.
  core_.OnMessage(now_ + std::chrono::seconds(30), kD1, handoff::Heartbeat{}, out_);
  const scheduler::StepProgress stuck = core_.progress(now_ + std::chrono::seconds(30));
  EXPECT_EQ(stuck.running_for, std::chrono::seconds(30));
  EXPECT_EQ(stuck.stuck_after, std::chrono::seconds(10)) << "nothing is known of its steps yet";
  FinishStep();
  EXPECT_EQ(core_.progress(now_ + std::chrono::seconds(31)).running_for, Duration(0));
}

TEST_F(PrefillCoreTest, RouterLostEndsAllOfItsTasks) {
  Submit();
  AnswerReserve(kD1, 1);
  core_.RouterLost(now_, kRouter, out_);
  EXPECT_NE(Sent<handoff::Release>(kD1), nullptr);
  FinishStep();
  ExpectNothingLeft();
}

}  // namespace
}  // namespace tandem::prefill_node
