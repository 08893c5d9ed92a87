// Races that PROTOCOL.md names, as the prefill node sees them: the messages in that order.
#include <gtest/gtest.h>

#include "tests/unit/prefill_node/prefill_core_fixture.h"

namespace tandem::prefill_node {
namespace {

class PrefillRaces : public PrefillCoreTest {
 protected:
  const PlacementKey all_ = Key(handoff::kAllPlacements.value());

  handoff::Heartbeat FreeBlocks(std::int32_t count) const {
    handoff::Heartbeat heartbeat;
    heartbeat.free_blocks = kv::BlockCount(count);
    return heartbeat;
  }
};

TEST_F(PrefillRaces, CancelBeforePrefillWasTakenFromTheQueue) {
  Submit(5, 1);
  Submit(5, 2);  // waits: a step runs
  core_.OnMessage(now_, kRouter, handoff::Cancel{Key(0xffffffff, 2)}, out_);
  EXPECT_NE(Sent<handoff::Cancelled>(kRouter), nullptr);
  EXPECT_EQ(core_.stats().queued, 0);
}

TEST_F(PrefillRaces, CancelBetweenReserveAndReserved) {
  Submit();
  core_.OnMessage(now_, kRouter, handoff::Cancel{all_}, out_);
  EXPECT_EQ(Sent<handoff::Cancelled>(kRouter), nullptr);  // the step computes it still
  EXPECT_EQ(Sent<handoff::Release>(kD1), nullptr);
  AnswerReserve(kD1, 1);
  EXPECT_NE(Sent<handoff::Release>(kD1), nullptr);
  FinishStep();
  EXPECT_NE(Sent<handoff::Cancelled>(kRouter), nullptr);
  EXPECT_EQ(Sent<handoff::FirstToken>(kRouter), nullptr);
  ExpectNothingLeft();
}

TEST_F(PrefillRaces, CancelAfterTheFenceBeforeHandOff) {
  Submit();
  AnswerReserve(kD1, 1);
  FinishStep();
  Fence();
  core_.OnMessage(now_, kRouter, handoff::Cancel{all_}, out_);
  EXPECT_NE(Sent<handoff::Release>(kD1), nullptr);
  core_.OnMessage(now_, kRouter, handoff::PlacementNoted{Key(1)}, out_);  // late
  EXPECT_EQ(Sent<handoff::HandOff>(kD1), nullptr);
  ExpectNothingLeft();
}

TEST_F(PrefillRaces, JoinedLostWithTheConnectionBothSidesAlive) {
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

// D has joined placement 1; P cannot know, places 2 and hears that R listens to 1.
TEST_F(PrefillRaces, DecodeNodeJoinedPlacementOneWhilePrefillNodePlacesTwo) {
  HandOffOne();
  core_.SinkLost(At(2000), kD1, out_);
  core_.OnTime(At(3000), out_);
  ASSERT_NE(Sent<handoff::Reserve>(kD2), nullptr);
  AnswerReserve(kD2, 2);
  ASSERT_NE(Sent<handoff::Placed>(kRouter), nullptr);
  EXPECT_EQ(Sent<handoff::Placed>(kRouter)->key, Key(2));
  core_.OnMessage(At(3010), kRouter, handoff::Cancel{all_}, out_);  // stale: D speaks
  EXPECT_NE(Last<AbortPush>(), nullptr);
  core_.PushDrained(At(3020), Key(2), out_);
  EXPECT_NE(Sent<handoff::Release>(kD2), nullptr);
  ExpectNothingLeft();
}

TEST_F(PrefillRaces, PlacedNamesANodeThatTheRouterHasLost) {
  Submit();
  AnswerReserve(kD1, 1);
  FinishStep();
  Fence();
  core_.OnMessage(now_, kRouter, handoff::PlacementRefused{Key(1), "lost"}, out_);
  EXPECT_NE(Sent<handoff::Release>(kD1), nullptr);
  ASSERT_NE(Sent<handoff::Reserve>(kD2), nullptr);
  EXPECT_EQ(Sent<handoff::Reserve>(kD2)->key, Key(2));
  EXPECT_EQ(core_.stats().computed_tokens, 20) << "from the pinned blocks, not computed again";
}

// The Release was sent and lost; the sink asks again on the next connection.
TEST_F(PrefillRaces, ReleaseLostWithItsConnection) {
  Submit();
  AnswerReserve(kD1, 1);
  FinishStep();
  Fence();
  core_.OnMessage(now_, kRouter, handoff::Cancel{all_}, out_);
  ASSERT_NE(Sent<handoff::Release>(kD1), nullptr);
  core_.SinkLost(now_, kD1, out_);
  ConnectSink(kD1, "d1");
  out_.clear();
  core_.OnMessage(now_, kD1, handoff::Revoke{Key(1)}, out_);
  ASSERT_NE(Sent<handoff::Release>(kD1), nullptr) << "of a placement it does not know any more";
  EXPECT_EQ(Sent<handoff::Release>(kD1)->key, Key(1));
  EXPECT_TRUE(Sent<handoff::Release>(kD1)->drained);
}

// A write into the old life's memory is outstanding. Nothing of it is taken for the new life.
TEST_F(PrefillRaces, DecodeNodeRestartsWithTheSameNameWhileAStoppedWriterMapsTheOldArena) {
  Submit();
  AnswerReserve(kD1, 1);
  FinishStep();
  const Push old = *Last<Push>();
  core_.SinkLost(At(30000), kD1, out_);
  EXPECT_NE(Last<AbortPush>(), nullptr);
  out_.clear();
  now_ = At(30000);
  ConnectSink(NodeId(9), "d1");  // the same name, another incarnation
  EXPECT_EQ(Sent<handoff::HandOff>(NodeId(9)), nullptr);
  EXPECT_EQ(core_.stats().lost_sinks, 1);
  core_.PushFenced(now_, old.ticket, old.bytes, 1, out_);  // into memory that nobody has
  EXPECT_EQ(Sent<handoff::LayerDone>(NodeId(9)), nullptr);
  EXPECT_EQ(Sent<handoff::Release>(NodeId(9)), nullptr);
  EXPECT_EQ(core_.stats().draining, 0);
  EXPECT_EQ(core_.stats().lost_sinks, 0);
}

TEST_F(PrefillRaces, LeaseExpiresWhileTheLastLayerIsInFlight) {
  Submit();
  AnswerReserve(kD1, 1);
  FinishStep();
  ASSERT_NE(Last<Push>(), nullptr);
  core_.OnTime(At(5900), out_);  // Reserve left at 1000: 100 ms of 5 s are left
  EXPECT_EQ(core_.stats().leases_expired, 1);
  EXPECT_NE(Last<AbortPush>(), nullptr);
  EXPECT_EQ(Sent<handoff::Release>(kD1), nullptr) << "a write is outstanding";
  EXPECT_EQ(core_.stats().blocks.used, kv::BlockCount(2));
  ASSERT_NE(Sent<handoff::Reserve>(kD2), nullptr);
  core_.PushDrained(At(5901), Key(1), out_);
  EXPECT_NE(Sent<handoff::Release>(kD1), nullptr);
}

TEST_F(PrefillRaces, RenewCrossesRevoke) {
  Submit();
  AnswerReserve(kD1, 1);
  core_.OnTime(At(2000), out_);
  ASSERT_NE(Sent<handoff::Renew>(kD1), nullptr);
  core_.OnMessage(At(2001), kD1, handoff::Revoke{Key(1)}, out_);
  ASSERT_NE(Sent<handoff::Release>(kD1), nullptr);
  ASSERT_NE(Sent<handoff::Reserve>(kD2), nullptr);
  out_.clear();
  core_.OnMessage(At(2002), kD1, handoff::RenewAnswer{{Key(1)}}, out_);  // says it again
  EXPECT_EQ(Sent<handoff::Reserve>(kD2), nullptr);
  EXPECT_EQ(core_.stats().placements, 1);
}

// Whatever the woken process handles first, it posts nothing on a lease that ended in its sleep.
TEST_F(PrefillRaces, PrefillNodeStoppedInTheMiddleOfAPutWakesAfterItsBlocksWereGivenAway) {
  Submit();
  AnswerReserve(kD1, 1);
  out_.clear();
  now_ = At(31000);
  core_.LayerComputed(now_, step_.step, kv::Layer(0), out_);
  FinishStep();
  EXPECT_EQ(Last<Push>(), nullptr);
  core_.OnTime(now_, out_);
  EXPECT_EQ(core_.stats().leases_expired, 1);
  EXPECT_NE(Sent<handoff::Release>(kD1), nullptr);
  EXPECT_NE(Sent<handoff::Reserve>(kD2), nullptr);
}

TEST_F(PrefillRaces, APutThatEndsAfterTheSleepIsReleasedAndNotHandedOff) {
  Submit();
  AnswerReserve(kD1, 1);
  core_.OnMessage(now_, kRouter, handoff::PlacementNoted{Key(1)}, out_);
  FinishStep();
  ASSERT_NE(Last<Push>(), nullptr);
  now_ = At(31000);
  core_.OnTime(now_, out_);
  Fence();
  EXPECT_EQ(Sent<handoff::HandOff>(kD1), nullptr);
  EXPECT_NE(Sent<handoff::Release>(kD1), nullptr);
}

TEST_F(PrefillRaces, PrefillNodeStoppedAfterHandOffWakesWhenAllIsOver) {
  HandOffOne();
  now_ = At(60000);
  core_.OnTime(now_, out_);
  core_.RouterLost(now_, kRouter, out_);  // its peers closed long ago
  core_.SinkLost(now_, kD1, out_);
  core_.SinkLost(now_, kD2, out_);
  out_.clear();
  ConnectSink(kD1, "d1");
  EXPECT_EQ(Sent<handoff::HandOff>(kD1), nullptr);
  core_.OnMessage(now_, kD1, handoff::Joined{Key(1)}, out_);  // cannot come; changes nothing
  ExpectNothingLeft();
}

// Only the pair's connection was lost: P asks, D has finished, R has too.
TEST_F(PrefillRaces, AHandOffRepeatedWhenAllIsOverEndsInCancel) {
  HandOffOne();
  core_.SinkLost(At(2000), kD1, out_);
  now_ = At(2500);
  ConnectSink(kD1, "d1");
  core_.OnMessage(now_, kD1, handoff::Rejected{Key(1), Reason::kStale}, out_);
  ASSERT_NE(Sent<handoff::Reserve>(kD2), nullptr);
  AnswerReserve(kD2, 2);
  core_.OnMessage(now_, kRouter, handoff::Cancel{all_}, out_);  // the answer to Placed
  core_.PushDrained(now_, Key(2), out_);
  EXPECT_NE(Sent<handoff::Release>(kD2), nullptr);
  ExpectNothingLeft();
}

TEST_F(PrefillRaces, TokenLimitReachedExactlyAtTheHandOff) {
  Submit(1);
  EXPECT_EQ(Sent<handoff::Reserve>(kD1), nullptr);
  FinishStep();
  EXPECT_EQ(Sent<handoff::FirstToken>(kRouter)->finish, sequence::FinishReason::kLength);
  ExpectNothingLeft();
}

TEST_F(PrefillRaces, EveryBlockInQuarantineWhileARequestWaits) {
  Submit();
  core_.OnMessage(now_, kD1, handoff::ReserveRefused{Key(1), Reason::kFull, {}}, out_);
  core_.OnMessage(now_, kD2, handoff::ReserveRefused{Key(2), Reason::kFull, {}}, out_);
  FinishStep();
  for (std::int64_t ms = 1250; ms < 20000; ms += 250) {
    core_.OnMessage(At(ms), kD1, FreeBlocks(0), out_);
    core_.OnMessage(At(ms), kD2, FreeBlocks(0), out_);
  }
  EXPECT_EQ(Sent<handoff::Failed>(kRouter), nullptr);
  EXPECT_EQ(core_.stats().blocks.used, kv::BlockCount(2)) << "pins kept";
  core_.OnMessage(At(20000), kD2, FreeBlocks(9), out_);
  ASSERT_NE(Sent<handoff::Reserve>(kD2), nullptr);
  EXPECT_EQ(Sent<handoff::Reserve>(kD2)->key, Key(3));
}

TEST_F(PrefillRaces, RouterDiesWhileItsWritesAreUnderWay) {
  handoff::Peers peers;
  peers.sinks = {{.name = "d1"}, {.name = "d2"}};
  core_.OnMessage(now_, kRouter, peers, out_);
  Submit();
  AnswerReserve(kD1, 1);
  FinishStep();
  out_.clear();
  core_.RouterLost(now_, kRouter, out_);
  EXPECT_EQ(Sent<handoff::Release>(kD1), nullptr) << "a write is outstanding";
  EXPECT_EQ(Last<DialSinks>(), nullptr) << "no sink is left before it has its blocks back";
  core_.PushDrained(now_, Key(1), out_);
  EXPECT_NE(Sent<handoff::Release>(kD1), nullptr);
  constexpr NodeId kNew{21};
  core_.RouterConnected(now_, kNew, {}, out_);
  core_.SinkLost(now_, kD2, out_);
  core_.OnMessage(now_, kNew, handoff::Peers{}, out_);
  ASSERT_EQ(Last<DialSinks>()->sinks.size(), 1U) << "connected still, though not named yet";
  EXPECT_EQ(Last<DialSinks>()->sinks[0].name, "d1");
  core_.SinkLost(now_, kD1, out_);
  core_.OnMessage(now_, kNew, handoff::Peers{}, out_);
  EXPECT_TRUE(Last<DialSinks>()->sinks.empty());
  ExpectNothingLeft();
}

TEST_F(PrefillRaces, RouterRestartsWhileItsOldTasksRun) {
  Submit();
  AnswerReserve(kD1, 1);
  core_.RouterLost(now_, kRouter, out_);
  EXPECT_NE(Sent<handoff::Release>(kD1), nullptr);
  handoff::Hello hello;
  hello.incarnation = handoff::Incarnation(78);
  constexpr NodeId kNew{21};
  core_.RouterConnected(now_, kNew, hello, out_);
  FinishStep();
  EXPECT_EQ(Sent<handoff::FirstToken>(kNew), nullptr) << "not its request";
  core_.OnMessage(now_, kNew, handoff::Cancel{all_}, out_);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace tandem::prefill_node
