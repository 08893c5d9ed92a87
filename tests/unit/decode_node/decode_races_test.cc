// Races that PROTOCOL.md names, as the decode node sees them: the messages in that order.
#include <gtest/gtest.h>

#include "tests/unit/decode_node/decode_core_fixture.h"

namespace tandem::decode_node {
namespace {

class DecodeRaces : public DecodeCoreTest {
 protected:
  kv::BlockCount Free() { return core().stats().blocks.free; }
  kv::BlockCount Quarantined() { return core().stats().blocks.quarantined; }
  void ExpectNothingLeft() {
    const DecodeStats s = core().stats();
    EXPECT_EQ(s.reserved + s.sequences + s.quarantined + s.leases + s.verifying, 0);
    EXPECT_EQ(s.blocks.used, kv::BlockCount(0));
    EXPECT_EQ(s.blocks.quarantined, kv::BlockCount(0));
  }
};

TEST_F(DecodeRaces, HandOffOvertakesItsData) {
  Connect();
  Reserve(Key(1));
  const VerifyTicket ticket = Announce(Key(1));
  out_.clear();
  HandOff(Key(1));
  EXPECT_TRUE(out_.empty());  // kept, neither joined nor rejected
  core().LayerVerified(now_, ticket, true, out_);
  EXPECT_NE(Sent<handoff::Joined>(), nullptr);
  ASSERT_NE(Sent<handoff::Tokens>(), nullptr);
  EXPECT_EQ(Sent<handoff::Tokens>()->first, Position(0));
}

// D never hears that its bytes will not come: whatever ends the reservation answers the HandOff.
TEST_F(DecodeRaces, AHandOffThatWaitsForBytesIsAnsweredWhenTheReservationEnds) {
  for (int end = 0; end < 4; ++end) {
    core_ptr_ = std::make_unique<DecodeCore>(config_);
    now_ = At(1000);
    Connect(Proof::kReceives);
    Reserve(Key(1));
    HandOff(Key(1));  // nothing was announced yet
    out_.clear();
    if (end == 0) core().OnTime(At(6100), out_);
    if (end == 1) core().OnMessage(now_, kRouter, handoff::Cancel{Key(1)}, out_);
    if (end == 2) core().OnMessage(now_, kSource, handoff::Release{Key(1), true}, out_);
    if (end == 3) core().LayerVerified(now_, Announce(Key(1)), false, out_);
    EXPECT_NE(Sent<handoff::Rejected>(), nullptr) << "end " << end;
  }
}

TEST_F(DecodeRaces, CancelBetweenReserveAndReserved) {
  Connect();
  core().OnMessage(now_, kRouter, handoff::Cancel{Key(1, handoff::kAllPlacements.value())}, out_);
  EXPECT_NE(Sent<handoff::Cancelled>(), nullptr) << "of what it does not hold yet";
  Reserve(Key(1));  // was on its way; P releases it when it hears Reserved
  core().OnMessage(now_, kSource, handoff::Release{Key(1), true}, out_);
  ExpectNothingLeft();
}

TEST_F(DecodeRaces, CancelAfterTheFenceBeforeHandOff) {
  Connect();
  Reserve(Key(1));
  core().LayerVerified(now_, Announce(Key(1)), true, out_);
  core().OnMessage(now_, kRouter, handoff::Cancel{Key(1)}, out_);
  EXPECT_NE(Sent<handoff::Revoke>(), nullptr);
  out_.clear();
  HandOff(Key(1));  // was on its way
  EXPECT_NE(Sent<handoff::Rejected>(), nullptr);
  EXPECT_EQ(Sent<handoff::Tokens>(), nullptr);
  core().OnMessage(now_, kSource, handoff::Release{Key(1), true}, out_);
  ExpectNothingLeft();
}

TEST_F(DecodeRaces, JoinedLostWithTheConnectionBothSidesAlive) {
  Connect();
  JoinOne(Key(1));
  core().SourceLost(now_, kSource, out_);
  EXPECT_EQ(core().stats().sequences, 1);
  core().SourceConnected(now_, kSource, handoff::Hello{}, Proof::kWriter, out_);
  out_.clear();
  HandOff(Key(1));
  EXPECT_NE(Sent<handoff::Joined>(), nullptr);
  EXPECT_EQ(Sent<handoff::Tokens>(), nullptr);  // not a second time
}

TEST_F(DecodeRaces, ReleaseLostWithItsConnection) {
  Connect();
  Reserve(Key(1));
  core().OnMessage(now_, kRouter, handoff::Cancel{Key(1)}, out_);
  ASSERT_NE(Sent<handoff::Revoke>(), nullptr);
  core().SourceLost(now_, kSource, out_);  // with the Release
  out_.clear();
  core().SourceConnected(now_, kSource, handoff::Hello{}, Proof::kWriter, out_);
  ASSERT_NE(Sent<handoff::Revoke>(), nullptr) << "again on every new connection";
  core().SourceLost(now_, kSource, out_);
  out_.clear();
  core().SourceConnected(now_, kSource, handoff::Hello{}, Proof::kWriter, out_);
  ASSERT_NE(Sent<handoff::Revoke>(), nullptr);
  core().OnMessage(now_, kSource, handoff::Release{Key(1), true}, out_);
  ExpectNothingLeft();
}

TEST_F(DecodeRaces, PrefillNodeRestartsAndGetsTheSamePort) {
  Connect();
  Reserve(Key(1));
  core().SourceLost(now_, kSource, out_);
  out_.clear();
  constexpr NodeId kNewLife{9};
  core().SourceConnected(now_, kNewLife, handoff::Hello{}, Proof::kWriter, out_);
  EXPECT_EQ(Sent<handoff::Revoke>(), nullptr) << "the new life holds nothing of the old one's";
  core().OnMessage(now_, kNewLife, handoff::Release{Key(1), true}, out_);  // not its to release
  EXPECT_EQ(Quarantined(), kv::BlockCount(2));
  core().WriterGone(now_, kSource, out_);
  ExpectNothingLeft();
}

TEST_F(DecodeRaces, LeaseExpiresWhileTheLastLayerIsInFlight) {
  Connect();
  Reserve(Key(1));
  EXPECT_EQ(core().NextDeadline(), At(6100));
  core().OnTime(At(6100), out_);
  EXPECT_EQ(Quarantined(), kv::BlockCount(2));
  out_.clear();
  EXPECT_EQ(Announce(Key(1)), VerifyTicket(0));  // stale
  HandOff(Key(1));
  EXPECT_EQ(Sent<handoff::Rejected>()->reason, Reason::kExpired);
  core().OnMessage(now_, kSource, handoff::Release{Key(1), true}, out_);
  EXPECT_EQ(Free(), kv::BlockCount(10));
}

TEST_F(DecodeRaces, TcpReceivePostedWhenTheLeaseExpires) {
  Connect(Proof::kReceives);
  Reserve(Key(1));
  core().OnTime(At(6100), out_);
  EXPECT_NE(Last<StopExpecting>(), nullptr);
  core().OnMessage(now_, kSource, handoff::Release{Key(1), true}, out_);  // not the proof here
  core().WriterGone(now_, kSource, out_);
  EXPECT_EQ(Quarantined(), kv::BlockCount(2));
  core().SinkDrained(now_, Key(1), out_);
  EXPECT_EQ(Free(), kv::BlockCount(10));
}

TEST_F(DecodeRaces, ArrivingDataRenewsTheLease) {
  Connect(Proof::kReceives);
  Reserve(Key(1));
  core().DataArrived(At(6000), Key(1));
  core().OnTime(At(6100), out_);
  EXPECT_EQ(core().stats().leases_expired, 0);
  EXPECT_EQ(core().NextDeadline(), At(11100));
}

TEST_F(DecodeRaces, RenewCrossesRevoke) {
  Connect();
  Reserve(Key(1));
  core().OnTime(At(6100), out_);
  ASSERT_NE(Sent<handoff::Revoke>(), nullptr);
  core().OnMessage(At(6101), kSource, handoff::Renew{{Key(1)}}, out_);
  EXPECT_EQ(Sent<handoff::RenewAnswer>()->gone, std::vector<PlacementKey>{Key(1)});
  EXPECT_EQ(core().NextDeadline(), kNever);
}

// The silent writer's blocks go to nobody, whatever ends meanwhile, until it wakes or dies.
TEST_F(DecodeRaces, PrefillNodeStoppedInTheMiddleOfAPutWakesAfterItsBlocksWereGivenAway) {
  for (const bool wakes : {true, false}) {
    core_ptr_ = std::make_unique<DecodeCore>(config_);
    Connect();
    Reserve(Key(1));
    core().SourceLost(At(3000), kSource, out_);  // 2 s of silence
    core().OnMessage(At(3000), kRouter, handoff::Cancel{Key(1)}, out_);
    core().OnTime(At(60000), out_);
    EXPECT_EQ(Quarantined(), kv::BlockCount(2));
    constexpr NodeId kOther{5};
    core().SourceConnected(At(60000), kOther, handoff::Hello{}, Proof::kWriter, out_);
    handoff::Reserve m;
    m.tokens = TokenCount(20);
    for (std::uint64_t i = 2; i <= 6; ++i) {
      m.key = Key(i);
      core().OnMessage(At(60000), kOther, m, out_);
    }
    EXPECT_EQ(core().stats().reserved, 4) << "8 of 10 blocks";
    ASSERT_NE(Sent<handoff::ReserveRefused>(), nullptr);
    EXPECT_EQ(Sent<handoff::ReserveRefused>()->reason, Reason::kFull);
    if (wakes) {
      out_.clear();
      core().SourceConnected(At(60001), kSource, handoff::Hello{}, Proof::kWriter, out_);
      ASSERT_NE(Sent<handoff::Revoke>(), nullptr);
      core().OnMessage(At(60002), kSource, handoff::Release{Key(1), true}, out_);
    } else {
      core().WriterGone(At(60001), kSource, out_);
    }
    EXPECT_EQ(Quarantined(), kv::BlockCount(0));
  }
}

TEST_F(DecodeRaces, PrefillNodeStoppedAfterHandOffWakesWhenAllIsOver) {
  Connect();
  JoinOne(Key(1), 2);
  core().SourceLost(now_, kSource, out_);
  FinishStep();
  ExpectNothingLeft();
  out_.clear();
  core().SourceConnected(At(60000), kSource, handoff::Hello{}, Proof::kWriter, out_);
  HandOff(Key(1));  // it never heard Joined
  ASSERT_NE(Sent<handoff::Rejected>(), nullptr);
  EXPECT_EQ(Sent<handoff::Tokens>(), nullptr);
  ExpectNothingLeft();
}

TEST_F(DecodeRaces, EveryBlockInQuarantineWhileARequestWaits) {
  Connect();
  for (std::uint64_t i = 1; i <= 5; ++i) Reserve(Key(i));  // all ten blocks
  core().OnTime(At(6100), out_);
  EXPECT_EQ(Quarantined(), kv::BlockCount(10));
  Reserve(Key(6));
  ASSERT_NE(Sent<handoff::ReserveRefused>(), nullptr);
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->reason, Reason::kFull);
  EXPECT_EQ(core().MakeHeartbeat(now_, kSource).free_blocks, kv::BlockCount(0));
  core().OnMessage(now_, kSource, handoff::Release{Key(3), true}, out_);
  EXPECT_EQ(core().MakeHeartbeat(now_, kSource).free_blocks, kv::BlockCount(2));
  out_.clear();
  Reserve(Key(6, 2));
  EXPECT_NE(Sent<handoff::Reserved>(), nullptr);
}

TEST_F(DecodeRaces, TokenLimitReachedExactlyAtTheHandOff) {
  Connect();
  JoinOne(Key(1), 1);  // nothing would be left to generate: never sent by a right source
  EXPECT_NE(Sent<handoff::Rejected>(), nullptr);
  JoinOne(Key(2), 2);
  FinishStep();
  ASSERT_NE(Sent<handoff::Tokens>(), nullptr);
  EXPECT_EQ(Sent<handoff::Tokens>()->finish, sequence::FinishReason::kLength);
  EXPECT_EQ(core().stats().sequences, 0);
}

TEST_F(DecodeRaces, PreemptionUnderAFullPool) {
  Connect();
  for (std::uint64_t i = 1; i <= 3; ++i) JoinOne(Key(i), 60);  // two blocks of ten each, then more
  const handoff::Failed* failed = nullptr;
  for (int step = 0; step < 40 && failed == nullptr; ++step) {
    FinishStep();
    failed = Sent<handoff::Failed>();
  }
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->reason, Reason::kPreempted);
  EXPECT_EQ(failed->key, Key(3));
  EXPECT_GE(core().stats().sequences, 1);
  // It may not come back to be preempted again, until the others can go on for a while.
  Reserve(Key(3, 2));
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->reason, Reason::kFull);
}

TEST_F(DecodeRaces, RouterRestartsWhileOldSequencesRun) {
  Connect();
  JoinOne(Key(1));
  Reserve(Key(2));
  core().RouterLost(now_, kRouter, out_);
  FinishStep();
  const DecodeStats stats = core().stats();
  EXPECT_EQ(stats.sequences + stats.reserved, 0);
  EXPECT_EQ(stats.quarantined, 1);
  EXPECT_EQ(stats.blocks.used, kv::BlockCount(0));
  out_.clear();
  Reserve(Key(3));  // of the router that is gone; was on its way
  ASSERT_NE(Sent<handoff::ReserveRefused>(), nullptr);
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->reason, Reason::kNoRouter);
}

}  // namespace
}  // namespace tandem::decode_node
