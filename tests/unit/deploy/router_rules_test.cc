#include "deploy/sim/router_rules.h"

#include <gtest/gtest.h>

namespace tandem::sim {
namespace {

using handoff::Attempt;
using handoff::Cancel;
using handoff::Incarnation;
using handoff::kAllPlacements;
using handoff::NodeId;
using handoff::Placement;
using handoff::PlacementKey;
using handoff::RequestId;

constexpr NodeId kPrefill{1}, kDecode{2}, kOther{3};
const RequestId kRequest{Incarnation(9), 1};

PlacementKey Key(std::uint32_t attempt, std::uint32_t placement) {
  return {kRequest, Attempt(attempt), Placement(placement)};
}

class RouterRulesTest : public ::testing::Test {
 protected:
  RouterRulesTest() {
    rules_.Connected(kPrefill, "p");
    rules_.Connected(kDecode, "d");
    rules_.Connected(kOther, "e");
    Start(1);
  }
  void Start(std::uint32_t attempt) {
    handoff::Prefill message;
    message.request = kRequest;
    message.attempt = Attempt(attempt);
    rules_.Sent(now_, kPrefill, message);
  }
  void Placed(std::uint32_t placement, const char* sink) {
    rules_.Received(now_, kPrefill, handoff::Placed{Key(1, placement), sink});
  }
  void Note(std::uint32_t placement) {
    rules_.Sent(now_, kPrefill, handoff::PlacementNoted{Key(1, placement)});
  }
  Time now_{std::chrono::seconds(100)};
  RouterRules rules_;
};

TEST_F(RouterRulesTest, AWholeRequestBreaksNone) {
  EXPECT_EQ(rules_.Check(), "");
  Placed(1, "d");
  Note(1);
  EXPECT_EQ(rules_.Check(), "");
  rules_.Finished(kRequest, false);
  EXPECT_EQ(rules_.Check(), "");
}

TEST_F(RouterRulesTest, EveryPlacedIsAnswered) {
  Placed(1, "d");
  EXPECT_NE(rules_.Check(), "");
  Placed(2, "d");
  rules_.Sent(now_, kPrefill, Cancel{{kRequest, Attempt(1), kAllPlacements}});
  EXPECT_EQ(rules_.Check(), "");
  Placed(3, "d");
  rules_.Sent(now_, kPrefill, handoff::PlacementRefused{Key(1, 3), ""});
  EXPECT_EQ(rules_.Check(), "");
}

TEST_F(RouterRulesTest, OnlyAConnectedNodeIsNoted) {
  rules_.Lost(kDecode);
  Placed(1, "d");
  Note(1);
  EXPECT_NE(rules_.Check(), "");
}

TEST_F(RouterRulesTest, TheEarlierDecodeNodeIsToldFirst) {
  Placed(1, "d");
  Note(1);
  Placed(2, "e");
  Note(2);
  EXPECT_NE(rules_.Check(), "");
  Placed(3, "d");
  rules_.Sent(now_, kOther, Cancel{Key(1, 2)});
  Note(3);
  EXPECT_EQ(rules_.Check(), "");
}

TEST_F(RouterRulesTest, TheOldAttemptIsCancelledEverywhere) {
  Placed(1, "d");
  Note(1);
  const Cancel whole{{kRequest, Attempt(1), kAllPlacements}};
  rules_.Sent(now_, kPrefill, whole);
  Start(2);
  EXPECT_NE(rules_.Check(), "") << "the decode node may hold it";
  rules_.Sent(now_, kPrefill, Cancel{{kRequest, Attempt(2), kAllPlacements}});
  rules_.Finished(kRequest, true);
  EXPECT_EQ(rules_.Check(), "");
}

TEST_F(RouterRulesTest, ANodeThatIsLostNeedsNoCancel) {
  Placed(1, "d");
  Note(1);
  rules_.Lost(kDecode);
  rules_.Sent(now_, kPrefill, Cancel{{kRequest, Attempt(1), kAllPlacements}});
  Start(2);
  EXPECT_EQ(rules_.Check(), "");
}

TEST_F(RouterRulesTest, AFailureThatCountsIsFollowedByARest) {
  const Cancel whole{{kRequest, Attempt(3), kAllPlacements}};
  rules_.Received(now_, kPrefill, handoff::Failed{Key(1, 0), handoff::Reason::kNoSink});
  rules_.Sent(now_, kPrefill, whole);
  Start(2);
  EXPECT_EQ(rules_.Check(), "") << "this one does not count";
  rules_.Received(now_, kPrefill, handoff::Failed{Key(2, 0), handoff::Reason::kInternal});
  rules_.Sent(now_, kPrefill, whole);
  now_ += std::chrono::milliseconds(49);
  Start(3);
  EXPECT_NE(rules_.Check(), "");
}

TEST_F(RouterRulesTest, AnEarlyEndIsTold) {
  rules_.Finished(kRequest, true);
  EXPECT_NE(rules_.Check(), "");
}

}  // namespace
}  // namespace tandem::sim
