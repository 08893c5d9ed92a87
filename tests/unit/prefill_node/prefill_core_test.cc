#include <gtest/gtest.h>

#include "common/scheduler/prefill_policy.h"
#include "tests/unit/prefill_node/prefill_core_fixture.h"

namespace tandem::prefill_node {
namespace {

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

TEST_F(PrefillCoreTest, TokenZeroStopsReleases) {
  Submit();
  AnswerReserve(kD1, 1);
  FinishStep(TokenId(9));
  EXPECT_EQ(Sent<handoff::FirstToken>(kRouter)->finish, sequence::FinishReason::kStop);
  ASSERT_NE(Sent<handoff::Release>(kD1), nullptr);
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

TEST_F(PrefillCoreTest, StepsAreShorterWhereDecodingLeavesASlice) {
  EXPECT_EQ(core_.stats().step_tokens, 512);
  core_.SetSlice(std::chrono::microseconds(10));
  EXPECT_EQ(core_.stats().step_tokens, 512);  // no step was seen yet
  Submit();
  EXPECT_EQ(step_.expected, Duration(0));
  FinishStep();
  EXPECT_EQ(core_.stats().step_fit.observations, 1);
  EXPECT_EQ(core_.stats().step_tokens, scheduler::kFewestTokens.value());
  core_.SetSlice(std::chrono::seconds(10));
  EXPECT_EQ(core_.stats().step_tokens, 512);
  Submit(5, 2);
  EXPECT_NEAR(ToMillis(step_.expected), 1, 0.1);  // as long as the one before
}

TEST_F(PrefillCoreTest, TransfersAreFitted) {
  HandOffOne();
  EXPECT_EQ(core_.stats().link_fit.observations, 0);
  core_.OnMessage(now_, kD1, handoff::Joined{Key(1)}, out_);
  EXPECT_EQ(core_.stats().link_fit.observations, 1);
}

TEST_F(PrefillCoreTest, NotesPlacementsMadeAgainAndStaleMessages) {
  Submit();
  EXPECT_EQ(Last<NodeNote>(), nullptr);
  core_.OnMessage(now_, kD1, handoff::ReserveRefused{Key(1), Reason::kDraining, {}}, out_);
  ASSERT_NE(Last<NodeNote>(), nullptr);
  EXPECT_EQ(Last<NodeNote>()->what, NodeNote::What::kPlacedAgain);
  EXPECT_EQ(Last<NodeNote>()->key, Key(2));
  EXPECT_EQ(Last<NodeNote>()->peer, kD2);
  out_.clear();
  core_.OnMessage(now_, kD1, handoff::Joined{Key(1)}, out_);
  ASSERT_NE(Last<NodeNote>(), nullptr);
  EXPECT_EQ(Last<NodeNote>()->what, NodeNote::What::kStaleMessage);
  EXPECT_EQ(Last<NodeNote>()->message, "Joined");
  EXPECT_EQ(Last<NodeNote>()->key, Key(1));
  EXPECT_EQ(core_.stats().stale_messages, 1);
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
