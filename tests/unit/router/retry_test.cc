// New attempts: where they go, how many at once, after which pause, and when no more are made.
#include "common/kv/block_hash.h"
#include "tests/unit/router/router_core_fixture.h"

namespace tandem::router {
namespace {

using handoff::Loss;
using handoff::PlacementKey;
using handoff::Reason;
using handoff::Role;
using std::chrono::milliseconds;
using std::chrono::seconds;

class RetryTest : public RouterCoreTest {
 protected:
  void OneOfEach() {
    Connect(kP1, Role::kPrefill, "p1");
    Connect(kD1, Role::kDecode, "d1");
    Usable(kP1, {"d1"});
  }
};

TEST_F(RetryTest, GoesWhereMostOfPromptAndGeneratedTokensIsCached) {
  ConnectAll();
  RequestSpec spec;
  spec.id = {kLife, 1};
  TokenIds tokens(20, TokenId(1));
  spec.tokens = std::make_shared<TokenIds>(tokens);
  spec.params.max_tokens = TokenCount(1000);
  const Hash128 root{};
  spec.hashes.push_back(
      {"", root, std::make_shared<const std::vector<Hash128>>(kv::HashChain(root, tokens))});
  ASSERT_TRUE(core_.Submit(now_, std::move(spec), out_).ok());
  ASSERT_EQ(Prefills()[0].first, kP1);
  Place(kP1, Key(1, 1), "d1");
  Speak(kD1, Key(1, 1), 0, 28);

  // The other prefill node holds the whole of it, generated tokens included; so does one of the
  // decode nodes.
  for (std::int32_t i = 0; i < 28; ++i) tokens.push_back(TokenId(100 + i));
  handoff::Heartbeat holds;
  holds.cached_added = kv::HashChain(root, tokens);
  ASSERT_EQ(holds.cached_added.size(), 3u);
  handoff::Heartbeat holds_prompt;
  holds_prompt.cached_added = {holds.cached_added[0]};
  holds.usable_sinks = holds_prompt.usable_sinks = {"d1", "d2"};
  core_.OnMessage(now_, kP1, holds_prompt, out_);
  core_.OnMessage(now_, kP2, holds, out_);
  out_.clear();
  Lose(kD1);
  ASSERT_EQ(Prefills().size(), 1u);
  EXPECT_EQ(Prefills()[0].first, kP2);
  const handoff::Prefill again = Prefills()[0].second;
  EXPECT_EQ(*again.tokens, tokens);
  EXPECT_EQ(again.first_position, Position(28));
  EXPECT_EQ(again.hashes->size(), 3u);
}

TEST_F(RetryTest, ALostNodesStreamsGoOnInTheirTurnAndNoneFails) {
  RouterConfig config = Config();
  config.requests_max = config.queued_max = 64;
  RouterCore core(config);
  handoff::Hello hello;
  hello.layout.num_layers = hello.layout.num_kv_heads = hello.layout.head_dim = 1;
  hello.capacity.num_blocks = kv::BlockCount(1000);
  const auto connect = [&](NodeId id, Role role, const char* name) {
    hello.role = role;
    hello.name = name;
    core.NodeConnected(now_, id, hello, out_);
  };
  connect(kP1, Role::kPrefill, "p1");
  connect(kD1, Role::kDecode, "d1");
  connect(kD2, Role::kDecode, "d2");
  handoff::Heartbeat heartbeat;
  heartbeat.usable_sinks = {"d1", "d2"};
  core.OnMessage(now_, kP1, heartbeat, out_);
  for (std::uint64_t i = 1; i <= 40; ++i) {
    RequestSpec spec;
    spec.id = {kLife, i};
    spec.tokens = std::make_shared<TokenIds>(TokenIds(20, TokenId(1)));
    spec.params.max_tokens = TokenCount(1000);
    ASSERT_TRUE(core.Submit(now_, std::move(spec), out_).ok());
    core.OnMessage(now_, kP1, handoff::Placed{Key(i, 1), "d1"}, out_);
  }
  out_.clear();
  core.NodeLost(now_, kD1, Loss::kDied, out_);
  EXPECT_EQ(Prefills().size(), 16u) << "no storm";
  EXPECT_EQ(core.stats().retries_queued, 24);
  // Each first token lets the next one begin.
  for (std::uint64_t i = 1; i <= 40; ++i) {
    handoff::FirstToken first{.request = {kLife, i}, .attempt = handoff::Attempt(2)};
    first.position = Position(0);
    first.token = TokenId(100);
    core.OnMessage(now_, kP1, first, out_);
  }
  EXPECT_EQ(Prefills().size(), 40u);
  EXPECT_EQ(End(), nullptr);
  EXPECT_EQ(core.stats().retries_queued, 0);
  EXPECT_EQ(core.stats().retries_under_way, 0);
}

TEST_F(RetryTest, ACountedFailureIsFollowedByAPause) {
  OneOfEach();
  ASSERT_TRUE(Submit(1).ok());
  core_.OnMessage(now_, kP1, handoff::Failed{Key(1, 1, 0), Reason::kInternal}, out_);
  EXPECT_EQ(Prefills().size(), 1u);
  const Time at = core_.NextDeadline();
  EXPECT_GE(at, now_ + milliseconds(50));
  EXPECT_LE(at, now_ + milliseconds(100));
  Usable(kP1, {"d1"});
  EXPECT_EQ(Prefills().size(), 1u) << "a heartbeat does not end it";
  core_.OnTime(at, out_);
  EXPECT_EQ(Prefills().size(), 2u);
  EXPECT_EQ(core_.NextDeadline(), kNever);
}

TEST_F(RetryTest, GivesUpAfterThreeFailuresWithoutProgress) {
  OneOfEach();
  ASSERT_TRUE(Submit(1).ok());
  for (std::uint32_t attempt = 1; attempt <= 3; ++attempt) {
    ASSERT_EQ(Prefills().size(), attempt);
    core_.OnMessage(now_, kP1, handoff::Failed{Key(1, attempt, 0), Reason::kInternal}, out_);
    now_ += seconds(1);
    core_.OnTime(now_, out_);
  }
  ASSERT_NE(End(), nullptr);
  EXPECT_EQ(End()->status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Prefills().size(), 3u);
  EXPECT_EQ(core_.NextDeadline(), kNever);
}

TEST_F(RetryTest, AStreamThatSkipsAPositionIsTriedAgainButNotForEver) {
  OneOfEach();
  ASSERT_TRUE(Submit(1).ok());
  for (std::uint32_t attempt = 1; attempt <= 3; ++attempt) {
    ASSERT_EQ(Prefills().size(), attempt);
    Place(kP1, Key(1, attempt), "d1");
    Speak(kD1, Key(1, attempt), 5, 1);
    now_ += seconds(1);
    core_.OnTime(now_, out_);
  }
  ASSERT_NE(End(), nullptr);
  EXPECT_EQ(core_.stats().gaps, 3);
}

TEST_F(RetryTest, APoisonRequestKillsFourNodesAndNoMore) {
  OneOfEach();
  ASSERT_TRUE(Submit(1).ok());
  for (std::int32_t death = 1; death <= 4; ++death) {
    EXPECT_EQ(End(), nullptr);
    Lose(NodeId(death));
    Connect(NodeId(death + 1), Role::kPrefill, "p1");
    Usable(NodeId(death + 1), {"d1"});
  }
  EXPECT_EQ(Prefills().size(), 4u);
  now_ += handoff::kVerdictWait;
  core_.OnTime(now_, out_);
  ASSERT_NE(End(), nullptr);
  EXPECT_EQ(End()->status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Prefills().size(), 4u);
}

TEST_F(RetryTest, WhoMayBePoisonIsTriedAloneAndTheOthersGoOn) {
  OneOfEach();
  for (std::uint64_t request = 1; request <= 3; ++request) ASSERT_TRUE(Submit(request).ok());
  for (std::int32_t death = 1; death <= 2; ++death) {
    Lose(NodeId(death));
    Connect(NodeId(death + 1), Role::kPrefill, "p1");
    Usable(NodeId(death + 1), {"d1"});
  }
  ASSERT_EQ(Prefills().size(), 3u + 3u + 1u);
  EXPECT_EQ(Prefills().back().second.request.number, 1u);
  ASSERT_TRUE(Submit(4).ok());  // no suspect
  EXPECT_EQ(Prefills().back().second.request.number, 4u);
  // The first suspect ends well: the next one's turn.
  core_.OnMessage(now_, NodeId(3),
                  handoff::FirstToken{{kLife, 1},
                                      handoff::Attempt(3),
                                      Position(0),
                                      TokenId(5),
                                      0,
                                      sequence::FinishReason::kStop,
                                      {}},
                  out_);
  EXPECT_EQ(Prefills().back().second.request.number, 2u);
  EXPECT_EQ(core_.stats().queued, 1);
  core_.ClientGone(now_, {kLife, 2}, out_);
  EXPECT_EQ(Prefills().back().second.request.number, 3u);
}

TEST_F(RetryTest, AConnectionThatBreaksThriceMakesNoRequestPoison) {
  OneOfEach();
  ASSERT_TRUE(Submit(1).ok());
  for (std::size_t loss = 1; loss <= 9; ++loss) {
    ASSERT_EQ(Prefills().size(), loss);
    Lose(kP1);  // as if it had died
    Connect(kP1, Role::kPrefill, "p1");
    Usable(kP1, {"d1"});
  }
  EXPECT_EQ(End(), nullptr);
}

TEST_F(RetryTest, NodesThatGoInOrderOrAreCutOffMakeNoRequestPoison) {
  OneOfEach();
  ASSERT_TRUE(Submit(1).ok());
  for (std::int32_t loss = 1; loss <= 9; ++loss) {
    const NodeId node(loss);
    if (loss % 3 == 0) core_.DrainNode(now_, node, seconds(60), out_);  // then its process ends
    Lose(node, loss % 3 == 0 ? Loss::kDied : loss % 3 == 1 ? Loss::kSilent : Loss::kClosed);
    Connect(NodeId(loss + 1), Role::kPrefill, "p1");
    Usable(NodeId(loss + 1), {"d1"});
  }
  EXPECT_EQ(End(), nullptr);
  EXPECT_EQ(Prefills().size(), 10u);
  EXPECT_EQ(Notes<NodeChanged>().back().what, NodeChanged::What::kConnected);
}

TEST_F(RetryTest, ANodeThatWasFullHasNotTakenTheRequest) {
  OneOfEach();
  ASSERT_TRUE(Submit(1).ok());
  core_.OnMessage(now_, kP1, handoff::Refused{{kLife, 1}, handoff::Attempt(1), Reason::kFull},
                  out_);
  EXPECT_EQ(core_.stats().retries_queued, 0);
  EXPECT_EQ(core_.stats().queued, 1);
  Usable(kP1, {"d1"});
  EXPECT_EQ(core_.stats().retries_under_way, 0);
  EXPECT_TRUE(Notes<FailedOver>().empty());
}

TEST_F(RetryTest, TellsWhatCameOfAFailOver) {
  ConnectAll();
  ASSERT_TRUE(Submit(1).ok());
  const NodeId p = Prefills()[0].first;
  Place(p, Key(1, 1), "d1");
  Speak(kD1, Key(1, 1), 0, 3);
  now_ += seconds(1);
  Lose(kD1);
  EXPECT_TRUE(Notes<FailedOver>().empty()) << "nothing came of it yet";
  const NodeId next = Prefills().back().first;
  now_ += seconds(1);
  Place(next, Key(1, 2), "d2");
  Speak(kD2, Key(1, 2), 3, 1);
  const auto notes = Notes<FailedOver>();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].reason, "died");
  EXPECT_EQ(notes[0].from, "d1");
  EXPECT_EQ(notes[0].to_decode, "d2");
  EXPECT_EQ(notes[0].delivered, TokenCount(3));
  EXPECT_EQ(notes[0].pause, seconds(2));
  EXPECT_TRUE(notes[0].resumed);
  Speak(kD2, Key(1, 2), 4, 1);
  EXPECT_EQ(Notes<FailedOver>().size(), 1u);
}

TEST_F(RetryTest, TellsOfAFailOverThatCameToNothing) {
  OneOfEach();
  Connect(kD2, Role::kDecode, "d2");
  Usable(kP1, {"d1", "d2"});
  ASSERT_TRUE(Submit(1, Deadline(now_ + seconds(5))).ok());
  Place(kP1, Key(1, 1), "d1");
  Lose(kD1, Loss::kSilent);
  now_ += seconds(5);
  core_.OnTime(now_, out_);
  const auto notes = Notes<FailedOver>();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].reason, "silent");
  EXPECT_FALSE(notes[0].resumed);
  EXPECT_EQ(notes[0].pause, seconds(5));
}

TEST_F(RetryTest, APlacementAfterAFullNodesRefusalIsNoNews) {
  ConnectAll();
  ASSERT_TRUE(Submit(1).ok());
  Place(Prefills()[0].first, Key(1, 1, 7), "d1");
  EXPECT_TRUE(Notes<PlacedAgain>().empty());
  EXPECT_EQ(core_.stats().placed_again, 0);
}

TEST_F(RetryTest, TellsOfANewPlacementAndOfStaleMessages) {
  ConnectAll();
  ASSERT_TRUE(Submit(1).ok());
  const NodeId p = Prefills()[0].first;
  Place(p, Key(1, 1), "d1");
  EXPECT_TRUE(Notes<PlacedAgain>().empty());
  Place(p, Key(1, 1, 2), "d2");
  ASSERT_EQ(Notes<PlacedAgain>().size(), 1u);
  EXPECT_EQ(Notes<PlacedAgain>()[0].from, "d1");
  EXPECT_EQ(Notes<PlacedAgain>()[0].to, "d2");
  Speak(kD1, Key(1, 1), 0, 1);
  ASSERT_EQ(Notes<StaleMessage>().size(), 1u);
  EXPECT_EQ(Notes<StaleMessage>()[0].node, "d1");
  EXPECT_EQ(Notes<StaleMessage>()[0].message, "Tokens");
  EXPECT_FALSE(Notes<StaleMessage>()[0].ended);
  core_.ClientGone(now_, {kLife, 1}, out_);
  Speak(kD2, Key(1, 1, 2), 0, 1);
  ASSERT_EQ(Notes<StaleMessage>().size(), 2u);
  EXPECT_TRUE(Notes<StaleMessage>()[1].ended);
}

TEST_F(RetryTest, TellsOfATokenThatCameAgainAndDiffers) {
  OneOfEach();
  ASSERT_TRUE(Submit(1).ok());
  handoff::FirstToken first{.request = {kLife, 1}, .attempt = handoff::Attempt(1)};
  first.token = TokenId(7);
  core_.OnMessage(now_, kP1, first, out_);
  Place(kP1, Key(1, 1), "d1");
  Speak(kD1, Key(1, 1), 0, 2);
  ASSERT_EQ(Notes<StreamDiffers>().size(), 1u);
  EXPECT_EQ(Notes<StreamDiffers>()[0].node, "d1");
  EXPECT_EQ(core_.stats().repeats_different, 1);
}

}  // namespace
}  // namespace tandem::router
