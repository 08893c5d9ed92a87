#include <gtest/gtest.h>

#include "tests/unit/decode_node/decode_core_fixture.h"

namespace tandem::decode_node {
namespace {

TEST_F(DecodeCoreTest, ReservesIdempotentlyAndOnlyForALiveRouter) {
  Connect();
  Reserve(Key(1));
  ASSERT_NE(Sent<handoff::Reserved>(), nullptr);
  const auto blocks = Sent<handoff::Reserved>()->blocks;
  EXPECT_EQ(blocks.size(), 2u);
  out_.clear();
  Reserve(Key(1));
  EXPECT_EQ(Sent<handoff::Reserved>()->blocks, blocks);
  EXPECT_EQ(core().stats().reserved, 1);
  handoff::Reserve other;
  other.key = {{handoff::Incarnation(99), 1}, handoff::Attempt(1), handoff::Placement(1)};
  other.tokens = TokenCount(1);
  core().OnMessage(now_, kSource, other, out_);
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->reason, Reason::kNoRouter);
}

TEST_F(DecodeCoreTest, RefusesWhatIsFullAndWhatCanNeverFit) {
  Connect();
  for (std::uint64_t i = 1; i <= 6; ++i) Reserve(Key(i));  // two blocks each
  ASSERT_NE(Sent<handoff::ReserveRefused>(), nullptr);
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->reason, Reason::kFull);
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->free_blocks, kv::BlockCount(0));
  handoff::Reserve huge;
  huge.key = Key(9);
  huge.tokens = TokenCount(155);
  huge.headroom = TokenCount(64);
  core().OnMessage(now_, kSource, huge, out_);
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->reason, Reason::kTooLong);
}

// Blocks without a place are no room: a source that heard of them would ask again at once, for
// ever.
TEST_F(DecodeCoreTest, OffersNoBlocksWhileEveryPlaceIsTaken) {
  config_.reservations_max = 2;
  core_ptr_ = std::make_unique<DecodeCore>(config_);
  Connect();
  for (std::uint64_t i = 1; i <= 3; ++i) Reserve(Key(i));  // two blocks each, of ten
  ASSERT_NE(Sent<handoff::ReserveRefused>(), nullptr);
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->reason, Reason::kFull);
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->free_blocks, kv::BlockCount(0));
}

TEST_F(DecodeCoreTest, AWrongChecksumIsRejectedAndQuarantined) {
  Connect();
  Reserve(Key(1));
  core().LayerVerified(now_, Announce(Key(1)), false, out_);
  EXPECT_NE(Sent<handoff::Revoke>(), nullptr);
  HandOff(Key(1));
  EXPECT_EQ(Sent<handoff::Rejected>()->reason, Reason::kCorrupt);
  EXPECT_EQ(core().stats().sequences, 0);
  EXPECT_EQ(core().stats().blocks.quarantined, kv::BlockCount(2));
}

TEST_F(DecodeCoreTest, TheEndOfAConnectionIsNoProofAndRevokeComesAgain) {
  Connect();
  Reserve(Key(1));
  core().SourceLost(now_, kSource, out_);
  EXPECT_EQ(core().stats().blocks.quarantined, kv::BlockCount(2));
  out_.clear();
  core().SourceConnected(now_, kSource, handoff::Hello{}, Proof::kWriter, out_);
  ASSERT_NE(Sent<handoff::Revoke>(), nullptr);
  core().OnMessage(now_, kSource, handoff::Release{Key(1), true}, out_);
  EXPECT_EQ(core().stats().blocks.free, kv::BlockCount(10));
}

TEST_F(DecodeCoreTest, TheWritersDeathIsAProofWheneverItIsKnown) {
  Connect();
  Reserve(Key(1));
  core().SourceLost(now_, kSource, out_);
  core().WriterGone(now_, kSource, out_);
  EXPECT_EQ(core().stats().blocks.free, kv::BlockCount(10));
  core().SourceConnected(now_, NodeId(3), handoff::Hello{}, Proof::kWriter, out_);
  handoff::Reserve m;
  m.key = Key(2);
  m.tokens = TokenCount(20);
  core().OnMessage(now_, NodeId(3), m, out_);
  core().WriterGone(now_, NodeId(3), out_);  // known before the connection's end is
  EXPECT_EQ(core().stats().blocks.free, kv::BlockCount(10));
  m.key = Key(3);
  core().OnMessage(now_, NodeId(3), m, out_);  // was on its way
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->key, Key(3));
}

TEST_F(DecodeCoreTest, CancelOfARunningSequenceWaitsForTheStep) {
  Connect();
  JoinOne(Key(1));
  ASSERT_NE(Last<StartStep>(), nullptr);
  core().OnMessage(now_, kRouter, handoff::Cancel{Key(1, 9)}, out_);
  EXPECT_EQ(Sent<handoff::Cancelled>(), nullptr);
  EXPECT_EQ(core().stats().blocks.used, kv::BlockCount(2));
  FinishStep();
  EXPECT_NE(Sent<handoff::Cancelled>(), nullptr);
  EXPECT_EQ(Sent<handoff::Tokens>(), nullptr);
  EXPECT_EQ(core().stats().blocks.used, kv::BlockCount(0));
}

TEST_F(DecodeCoreTest, CancelOfAnEarlierPlacementLeavesTheLaterOne) {
  Connect();
  Reserve(Key(1, 1));
  Reserve(Key(1, 2));
  core().OnMessage(now_, kRouter, handoff::Cancel{Key(1, 1)}, out_);
  EXPECT_EQ(core().stats().reserved, 1);
  EXPECT_EQ(core().stats().quarantined, 1);
}

TEST_F(DecodeCoreTest, StreamsToTheLimitAndFreesEverything) {
  Connect();
  JoinOne(Key(1), 3);
  FinishStep();
  EXPECT_EQ(Sent<handoff::Tokens>()->first, Position(1));
  EXPECT_EQ(Sent<handoff::Tokens>()->finish, sequence::FinishReason::kNone);
  FinishStep();
  EXPECT_EQ(Sent<handoff::Tokens>()->first, Position(2));
  EXPECT_EQ(Sent<handoff::Tokens>()->finish, sequence::FinishReason::kLength);
  EXPECT_EQ(core().stats().blocks.used, kv::BlockCount(0));
}

TEST_F(DecodeCoreTest, DrainIsAnnouncedAndFinishesWhatRuns) {
  Connect();
  JoinOne(Key(1));
  core().OnMessage(now_, kRouter, handoff::Drain{std::chrono::seconds(10)}, out_);
  int told = 0;
  for (const Action& action : out_) {
    const Send* send = std::get_if<Send>(&action);
    const auto* m = send == nullptr ? nullptr : std::get_if<handoff::Heartbeat>(&send->message);
    if (m != nullptr && m->draining) ++told;
  }
  EXPECT_EQ(told, 2) << "the router and the source";
  Reserve(Key(2));
  ASSERT_NE(Sent<handoff::ReserveRefused>(), nullptr);
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->reason, Reason::kDraining);
  EXPECT_FALSE(core().drained());
  for (int i = 0; i < 3; ++i) FinishStep();
  EXPECT_EQ(core().stats().finished, 1);
  EXPECT_TRUE(core().drained());
}

TEST_F(DecodeCoreTest, DrainOfDWithReservationsLetsThemJoinInTime) {
  Connect();
  Reserve(Key(1));
  core().BeginDrain(now_, std::chrono::seconds(10), out_);
  EXPECT_FALSE(core().drained());
  core().LayerVerified(now_, Announce(Key(1)), true, out_);
  HandOff(Key(1));
  EXPECT_NE(Sent<handoff::Joined>(), nullptr);
  EXPECT_EQ(core().stats().sequences, 1);
}

TEST_F(DecodeCoreTest, DrainMovesWhatIsLeftWhenItsBudgetEnds) {
  Connect();
  JoinOne(Key(1), 100);
  const StartStep step = *Last<StartStep>();
  Reserve(Key(2));
  core().BeginDrain(now_, std::chrono::seconds(3), out_);
  out_.clear();
  EXPECT_EQ(core().NextDeadline(), now_ + std::chrono::seconds(3));
  now_ += std::chrono::seconds(3);
  core().OnTime(now_, out_);
  ASSERT_NE(Sent<handoff::Failed>(), nullptr);
  EXPECT_EQ(Sent<handoff::Failed>()->key, Key(1));
  EXPECT_EQ(Sent<handoff::Failed>()->reason, Reason::kDraining);
  ASSERT_NE(Sent<handoff::Revoke>(), nullptr);
  EXPECT_EQ(Sent<handoff::Revoke>()->key, Key(2));
  EXPECT_FALSE(core().drained()) << "a step runs on its blocks";
  core().StepDone(now_, step.step, {}, std::chrono::milliseconds(1), out_);
  EXPECT_TRUE(core().drained());
  out_.clear();
  HandOff(Key(2));
  EXPECT_EQ(Sent<handoff::Rejected>()->reason, Reason::kDraining);
}

TEST_F(DecodeCoreTest, ASecondDrainHurries) {
  Connect();
  JoinOne(Key(1), 100);
  core().BeginDrain(now_, std::chrono::hours(1), out_);
  EXPECT_EQ(Sent<handoff::Failed>(), nullptr);
  core().BeginDrain(now_, Duration(0), out_);
  ASSERT_NE(Sent<handoff::Failed>(), nullptr);
  EXPECT_EQ(Sent<handoff::Failed>()->reason, Reason::kDraining);
}

TEST_F(DecodeCoreTest, ProgressAgesWithTheEnginesStepAlone) {
  Connect();
  EXPECT_EQ(core().progress(now_).running_for, Duration(0));
  JoinOne(Key(1), 100);
  const scheduler::StepProgress stuck = core().progress(now_ + std::chrono::seconds(30));
  EXPECT_EQ(stuck.running_for, std::chrono::seconds(30));
  EXPECT_EQ(stuck.stuck_after, std::chrono::seconds(10)) << "nothing is known of its steps yet";
  FinishStep();
  EXPECT_EQ(core().progress(now_).number, stuck.number + 1) << "the next one";
}

TEST_F(DecodeCoreTest, NotesRefusedReservationsAndQuarantines) {
  Connect();
  Reserve(Key(1));
  EXPECT_EQ(Last<NodeNote>(), nullptr);
  core().OnMessage(now_, kRouter, handoff::Cancel{Key(1)}, out_);
  ASSERT_NE(Last<NodeNote>(), nullptr);
  EXPECT_EQ(Last<NodeNote>()->what, NodeNote::What::kQuarantined);
  EXPECT_EQ(Last<NodeNote>()->key, Key(1));
  EXPECT_EQ(core().stats().quarantines, 1);
  core().BeginDrain(now_, std::chrono::hours(1), out_);
  Reserve(Key(2));
  EXPECT_EQ(Last<NodeNote>()->what, NodeNote::What::kReserveRefused);
  EXPECT_EQ(Last<NodeNote>()->reason, Reason::kDraining);
}

TEST_F(DecodeCoreTest, KeepsABlockForEachSequenceThatWillGrow) {
  Connect();
  for (std::uint64_t i = 1; i <= 3; ++i) JoinOne(Key(i), 60);  // six of ten blocks, three may grow
  Reserve(Key(4));
  ASSERT_NE(Sent<handoff::ReserveRefused>(), nullptr);
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->reason, Reason::kFull);
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->free_blocks, kv::BlockCount(1));
}

TEST_F(DecodeCoreTest, TellsASourceThatWasRefusedAsSoonAsThereIsRoom) {
  Connect();
  for (std::uint64_t i = 1; i <= 5; ++i) JoinOne(Key(i), 2);  // all ten blocks; none will grow
  Reserve(Key(6));
  ASSERT_NE(Sent<handoff::ReserveRefused>(), nullptr);
  FinishStep();  // of the first one alone: its last token
  ASSERT_NE(Sent<handoff::Heartbeat>(), nullptr);
  EXPECT_EQ(Sent<handoff::Heartbeat>()->free_blocks, kv::BlockCount(2));
}

TEST_F(DecodeCoreTest, ASlowRouterStopsItsStreamAndNotTheBatch) {
  config_.num_blocks = kv::BlockCount(60);
  config_.max_context = TokenCount(900);
  core_ptr_ = std::make_unique<DecodeCore>(config_);
  Connect();
  JoinOne(Key(1), 600);
  JoinOne(Key(2), 600);
  for (std::uint32_t step = 0; step < handoff::kCreditWindow + 10; ++step) {
    core().OnMessage(now_, kRouter, handoff::Credit{Key(2), 1}, out_);  // only one is read
    FinishStep();
  }
  ASSERT_NE(Last<StartStep>(), nullptr);
  EXPECT_EQ(Last<StartStep>()->batch->slices.size(), 1u);
  core().OnMessage(now_, kRouter, handoff::Credit{Key(1), 8}, out_);
  FinishStep();
  EXPECT_EQ(Last<StartStep>()->batch->slices.size(), 2u);
}

}  // namespace
}  // namespace tandem::decode_node
