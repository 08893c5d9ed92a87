#include "router/core/completion_rate.h"

#include "tests/unit/router/router_core_fixture.h"

namespace tandem::router {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(CompletionRateTest, FollowsWhatEndsPerSecond) {
  CompletionRate rate;
  EXPECT_EQ(rate.PerSecond(At(1000)), 0);
  Time now = At(1000);
  for (int i = 0; i < 200; ++i) rate.Observe(now += milliseconds(100));
  EXPECT_NEAR(rate.PerSecond(now), 10, 1);
  for (int i = 0; i < 60; ++i) rate.Observe(now += seconds(1));
  EXPECT_NEAR(rate.PerSecond(now), 1, 0.2);
  EXPECT_EQ(rate.PerSecond(now + std::chrono::minutes(10)), 0) << "long ago";
}

TEST(CompletionRateTest, IsRightSoonAfterTheFirst) {
  CompletionRate rate;
  Time now = At(1000);
  for (int i = 0; i < 20; ++i) rate.Observe(now += milliseconds(100));
  EXPECT_NEAR(rate.PerSecond(now), 10, 2);
}

using RetryAfterTest = RouterCoreTest;

TEST_F(RetryAfterTest, CountsWhatWaitsAndHowFastItEnds) {
  ConnectAll();
  EXPECT_EQ(core_.RetryAfter(now_), seconds(5)) << "nothing is known yet";
  std::uint64_t number = 0;
  for (int i = 0; i < 40; ++i) {  // two requests end each second
    ASSERT_TRUE(Submit(++number).ok());
    now_ += milliseconds(500);
    core_.ClientGone(now_, {kLife, number}, out_);
  }
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Submit(++number).ok());
  EXPECT_FALSE(core_.Admission().ok());
  EXPECT_EQ(Submit(number + 1).code(), absl::StatusCode::kResourceExhausted);
  // Eight are ahead: four seconds and a bit.
  EXPECT_GE(core_.RetryAfter(now_), seconds(4));
  EXPECT_LE(core_.RetryAfter(now_), seconds(6));
  EXPECT_EQ(core_.RetryAfter(now_ + seconds(40)), seconds(60)) << "nothing ends any more";
}

TEST_F(RetryAfterTest, TakesTheNodesFitsBeforeAnythingEnded) {
  Connect(kP1, handoff::Role::kPrefill, "p1");
  handoff::Heartbeat heartbeat;
  heartbeat.queued_tokens = TokenCount(2000);
  heartbeat.fit.per_token_s = 0.01;
  core_.OnMessage(now_, kP1, heartbeat, out_);
  EXPECT_EQ(core_.RetryAfter(now_), seconds(20));
}

}  // namespace
}  // namespace tandem::router
