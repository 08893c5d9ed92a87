#include "decode_node/core/decode_core.h"

#include <gtest/gtest.h>

namespace tandem::decode_node {
namespace {

using handoff::NodeId;
using handoff::PlacementKey;
using handoff::Proof;
using handoff::Reason;

constexpr NodeId kRouter{1}, kSource{2};
const handoff::Incarnation kRouterLife{77};
Time At(std::int64_t ms) { return Time{} + std::chrono::milliseconds(ms); }

// One layer, blocks of 16 tokens, 10 blocks; prompts of 20 tokens (2 blocks).
class DecodeCoreTest : public ::testing::Test {
 protected:
  DecodeCore& core() { return *core_ptr_; }
  static DecodeConfig Config() {
    DecodeConfig config;
    config.name = "d";
    config.incarnation = handoff::Incarnation(5);
    config.numerics = "n";
    config.layout.num_layers = 1;
    config.layout.num_kv_heads = 1;
    config.layout.head_dim = 8;
    config.num_blocks = kv::BlockCount(10);
    config.max_context = TokenCount(160);
    return config;
  }
  void Connect(Proof proof = Proof::kWriter) {
    handoff::Hello hello;
    hello.incarnation = kRouterLife;
    core().RouterConnected(now_, kRouter, hello, out_);
    hello.numerics = "n";
    core().SourceConnected(now_, kSource, hello, proof, out_);
  }
  PlacementKey Key(std::uint64_t request, std::uint32_t placement = 1) const {
    return {{kRouterLife, request}, handoff::Attempt(1), handoff::Placement(placement)};
  }
  void Reserve(const PlacementKey& key) {
    handoff::Reserve m;
    m.key = key;
    m.tokens = TokenCount(20);
    m.headroom = TokenCount(12);
    core().OnMessage(now_, kSource, m, out_);
  }
  VerifyTicket Announce(const PlacementKey& key) {
    handoff::LayerDone m;
    m.key = key;
    m.num_blocks = 2;
    m.num_tokens = 20;
    m.bytes = ByteCount(2 * Config().layout.block_bytes().value());
    core().OnMessage(now_, kSource, m, out_);
    const Verify* verify = Last<Verify>();
    return verify != nullptr ? verify->ticket : VerifyTicket(0);
  }
  void HandOff(const PlacementKey& key, std::int32_t max_tokens = 4) {
    handoff::HandOff m;
    m.key = key;
    m.prompt_tokens = TokenCount(20);
    m.tokens = std::make_shared<TokenIds>(TokenIds(21, TokenId(7)));
    m.params.max_tokens = TokenCount(max_tokens);
    m.total_bytes = ByteCount(2 * Config().layout.block_bytes().value());
    m.total_layer_blocks = 2;
    core().OnMessage(now_, kSource, m, out_);
  }
  void JoinOne(const PlacementKey& key, std::int32_t max_tokens = 4) {
    Reserve(key);
    core().LayerVerified(now_, Announce(key), true, out_);
    HandOff(key, max_tokens);
  }
  void FinishStep() {
    const StartStep* start = Last<StartStep>();
    ASSERT_NE(start, nullptr);
    const StartStep step = *start;
    std::vector<sequence::SampledToken> results;
    for (const auto& slice : step.batch->slices) results.push_back({slice.tag, TokenId(8), 0});
    out_.clear();
    core().StepDone(now_, step.step, results, std::chrono::milliseconds(1), out_);
  }
  template <typename A>
  const A* Last() const {
    for (auto it = out_.rbegin(); it != out_.rend(); ++it) {
      if (const A* action = std::get_if<A>(&*it)) return action;
    }
    return nullptr;
  }
  template <typename M>
  const M* Sent() const {
    for (auto it = out_.rbegin(); it != out_.rend(); ++it) {
      const Send* send = std::get_if<Send>(&*it);
      if (send == nullptr) continue;
      if (const M* message = std::get_if<M>(&send->message)) return message;
    }
    return nullptr;
  }

  Time now_ = At(1000);
  Actions out_;
  DecodeConfig config_ = Config();
  std::unique_ptr<DecodeCore> core_ptr_ = std::make_unique<DecodeCore>(config_);
};

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

// Blocks without a place are no room: a source that heard of them would ask again at once, for ever.
TEST_F(DecodeCoreTest, OffersNoBlocksWhileEveryPlaceIsTaken) {
  config_.reservations_max = 2;
  core_ptr_ = std::make_unique<DecodeCore>(config_);
  Connect();
  for (std::uint64_t i = 1; i <= 3; ++i) Reserve(Key(i));  // two blocks each, of ten
  ASSERT_NE(Sent<handoff::ReserveRefused>(), nullptr);
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->reason, Reason::kFull);
  EXPECT_EQ(Sent<handoff::ReserveRefused>()->free_blocks, kv::BlockCount(0));
}

TEST_F(DecodeCoreTest, HandOffOvertakesItsData) {
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

TEST_F(DecodeCoreTest, LeaseExpiresWhileTheLastLayerIsInFlight) {
  Connect();
  Reserve(Key(1));
  EXPECT_EQ(core().NextDeadline(), At(6100));
  core().OnTime(At(6100), out_);
  EXPECT_EQ(core().stats().blocks.quarantined, kv::BlockCount(2));
  out_.clear();
  EXPECT_EQ(Announce(Key(1)), VerifyTicket(0));  // stale
  HandOff(Key(1));
  EXPECT_EQ(Sent<handoff::Rejected>()->reason, Reason::kExpired);
  core().OnMessage(now_, kSource, handoff::Release{Key(1), true}, out_);
  EXPECT_EQ(core().stats().blocks.free, kv::BlockCount(10));
}

TEST_F(DecodeCoreTest, RenewCrossesRevoke) {
  Connect();
  Reserve(Key(1));
  core().OnTime(At(6100), out_);
  ASSERT_NE(Sent<handoff::Revoke>(), nullptr);
  core().OnMessage(At(6101), kSource, handoff::Renew{{Key(1)}}, out_);
  EXPECT_EQ(Sent<handoff::RenewAnswer>()->gone, std::vector<PlacementKey>{Key(1)});
  EXPECT_EQ(core().NextDeadline(), kNever);
}

TEST_F(DecodeCoreTest, TcpReceivePostedWhenTheLeaseExpires) {
  Connect(Proof::kReceives);
  Reserve(Key(1));
  core().OnTime(At(6100), out_);
  EXPECT_NE(Last<StopExpecting>(), nullptr);
  core().OnMessage(now_, kSource, handoff::Release{Key(1), true}, out_);  // not the proof here
  core().WriterGone(now_, kSource, out_);
  EXPECT_EQ(core().stats().blocks.quarantined, kv::BlockCount(2));
  core().SinkDrained(now_, Key(1), out_);
  EXPECT_EQ(core().stats().blocks.free, kv::BlockCount(10));
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

TEST_F(DecodeCoreTest, JoinedLostWithTheConnectionBothSidesAlive) {
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

TEST_F(DecodeCoreTest, RouterRestartsWhileOldSequencesRun) {
  Connect();
  JoinOne(Key(1));
  Reserve(Key(2));
  core().RouterLost(now_, kRouter, out_);
  FinishStep();
  const DecodeStats stats = core().stats();
  EXPECT_EQ(stats.sequences + stats.reserved, 0);
  EXPECT_EQ(stats.quarantined, 1);
  EXPECT_EQ(stats.blocks.used, kv::BlockCount(0));
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

TEST_F(DecodeCoreTest, PreemptsTheYoungestUnderAFullPool) {
  Connect();
  for (std::uint64_t i = 1; i <= 5; ++i) JoinOne(Key(i), 40);  // all ten blocks
  const handoff::Failed* failed = nullptr;
  for (int step = 0; step < 40 && failed == nullptr; ++step) {
    FinishStep();
    failed = Sent<handoff::Failed>();
  }
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->reason, Reason::kPreempted);
  EXPECT_EQ(failed->key, Key(5));
  EXPECT_GE(core().stats().sequences, 1);
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
