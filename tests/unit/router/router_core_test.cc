#include "router/core/router_core.h"

#include <map>

#include "tests/unit/router/router_core_fixture.h"

namespace tandem::router {
namespace {

using handoff::NodeId;
using handoff::PlacementKey;
using handoff::Role;

TEST_F(RouterCoreTest, WaitsForAPairWhoseProbeSucceeded) {
  ASSERT_TRUE(Submit(1).ok());
  Connect(kP1, Role::kPrefill, "p1");
  Connect(kD1, Role::kDecode, "d1");
  EXPECT_FALSE(core_.ready());
  EXPECT_TRUE(Prefills().empty());
  Usable(kP1, {"d1"});
  EXPECT_TRUE(core_.ready());
  ASSERT_EQ(Prefills().size(), 1u);
  EXPECT_EQ(Prefills()[0].second.ranked_sinks, std::vector<std::string>{"d1"});
}

TEST_F(RouterCoreTest, TellsPrefillNodesTheDecodeNodesOnEveryChange) {
  Connect(kP1, Role::kPrefill, "p1");
  Connect(kD1, Role::kDecode, "d1");
  ASSERT_NE(Sent<handoff::Peers>(kP1), nullptr);
  EXPECT_EQ(Sent<handoff::Peers>(kP1)->sinks.size(), 1u);
  core_.NodeLost(now_, kD1, handoff::Loss::kDied, out_);
  EXPECT_TRUE(Sent<handoff::Peers>(kP1)->sinks.empty());
}

TEST_F(RouterCoreTest, TwoOfEachShareTheWork) {
  ConnectAll();
  std::map<NodeId, int> prefills;
  std::map<std::string, int> firsts;
  for (std::uint64_t i = 1; i <= 8; ++i) ASSERT_TRUE(Submit(i).ok());
  for (const auto& [to, message] : Prefills()) {
    ++prefills[to];
    ++firsts[message.ranked_sinks[0]];
  }
  EXPECT_EQ(prefills[kP1], 4);
  EXPECT_EQ(prefills[kP2], 4);
  EXPECT_EQ(firsts["d1"], 4);
  EXPECT_EQ(firsts["d2"], 4);
}

TEST_F(RouterCoreTest, RefusesBeyondItsBounds) {
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_TRUE(Submit(i).ok());
  EXPECT_EQ(Submit(4).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Submit(3).code(), absl::StatusCode::kInvalidArgument);  // a number used before
  core_.Stop(now_, Cancelled("stopping"), out_);
  EXPECT_EQ(Submit(9).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(core_.stats().requests, 0);
}

TEST_F(RouterCoreTest, TheDeadlineEndsARequestThatWaits) {
  ASSERT_TRUE(Submit(1, Deadline(At(1500))).ok());
  EXPECT_EQ(core_.NextDeadline(), At(1500));
  core_.OnTime(At(1500), out_);
  ASSERT_NE(End(), nullptr);
  EXPECT_EQ(End()->status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(core_.NextDeadline(), kNever);
}

TEST_F(RouterCoreTest, ClientGoneReachesBothLegs) {
  ConnectAll();
  ASSERT_TRUE(Submit(1).ok());
  const NodeId p = Prefills()[0].first;
  const PlacementKey key{{kLife, 1}, handoff::Attempt(1), handoff::Placement(1)};
  core_.OnMessage(now_, p, handoff::Placed{key, "d1"}, out_);
  ASSERT_NE(Sent<handoff::PlacementNoted>(p), nullptr);
  core_.ClientGone(now_, key.request, out_);
  EXPECT_NE(Sent<handoff::Cancel>(p), nullptr);
  EXPECT_NE(Sent<handoff::Cancel>(kD1), nullptr);
  ASSERT_NE(End(), nullptr);
  EXPECT_EQ(End()->status.code(), absl::StatusCode::kCancelled);
  out_.clear();
  core_.OnMessage(now_, p, handoff::Placed{key, "d1"}, out_);  // was on its way
  EXPECT_NE(Sent<handoff::Cancel>(p), nullptr);
}

TEST_F(RouterCoreTest, GrantsCreditAsTheClientReads) {
  ConnectAll();
  ASSERT_TRUE(Submit(1).ok());
  const NodeId p = Prefills()[0].first;
  const PlacementKey key{{kLife, 1}, handoff::Attempt(1), handoff::Placement(1)};
  core_.OnMessage(now_, p, handoff::Placed{key, "d2"}, out_);
  handoff::Tokens tokens;
  tokens.key = key;
  tokens.tokens = TokenIds(handoff::kCreditWindow, TokenId(5));
  tokens.logprobs.resize(handoff::kCreditWindow);
  core_.OnMessage(now_, kD2, tokens, out_);
  core_.ClientConsumed(now_, key.request, 100, out_);
  EXPECT_EQ(Sent<handoff::Credit>(kD2), nullptr);  // not a message per token
  core_.ClientConsumed(now_, key.request, 56, out_);
  ASSERT_NE(Sent<handoff::Credit>(kD2), nullptr);
  EXPECT_EQ(Sent<handoff::Credit>(kD2)->tokens, 156u);
}

TEST_F(RouterCoreTest, AFullPrefillNodeRestsUntilItsNextHeartbeat) {
  Connect(kP1, Role::kPrefill, "p1");
  Connect(kD1, Role::kDecode, "d1");
  Usable(kP1, {"d1"});
  ASSERT_TRUE(Submit(1).ok());
  core_.OnMessage(now_, kP1,
                  handoff::Refused{{kLife, 1}, handoff::Attempt(1), handoff::Reason::kFull}, out_);
  EXPECT_EQ(Prefills().size(), 1u);
  EXPECT_EQ(core_.stats().queued, 1);
  Usable(kP1, {"d1"});
  ASSERT_EQ(Prefills().size(), 2u);
  EXPECT_EQ(Prefills()[1].second.attempt, handoff::Attempt(2));
}

TEST_F(RouterCoreTest, TheOnlyWorkerOfAKindDiesAndANewOneRegisters) {
  Connect(kP1, Role::kPrefill, "p1");
  Connect(kD1, Role::kDecode, "d1");
  Usable(kP1, {"d1"});
  ASSERT_TRUE(Submit(1).ok());
  core_.NodeLost(now_, kP1, handoff::Loss::kDied, out_);
  EXPECT_EQ(core_.stats().queued, 1);
  EXPECT_EQ(End(), nullptr);
  Connect(NodeId(5), Role::kPrefill, "p1");
  EXPECT_EQ(Prefills().size(), 1u);  // its pair has not been probed yet
  Usable(NodeId(5), {"d1"});
  EXPECT_EQ(Prefills().size(), 2u);
}

}  // namespace
}  // namespace tandem::router
