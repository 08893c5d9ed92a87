#include "router/core/start_forecast.h"

#include <gtest/gtest.h>

#include "tests/unit/router/router_core_fixture.h"

namespace tandem::router {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(StartForecastTest, SaysNothingOfANodeThatWasNotKeptBusy) {
  StartForecast forecast;
  EXPECT_EQ(forecast.PerSecondMost(At(100'000)), std::nullopt) << "idle";
  for (std::uint64_t i = 1; i <= 20; ++i) forecast.Sent(i, At(100'000));
  EXPECT_EQ(forecast.PerSecondMost(At(104'900)), std::nullopt) << "a burst, just come";
  EXPECT_NE(forecast.PerSecondMost(At(105'000)), std::nullopt);
}

TEST(StartForecastTest, OneThatWaitsForLongProvesNothingWhileOthersPassIt) {
  StartForecast forecast;
  forecast.Sent(1, At(0));
  for (std::uint64_t i = 2; i < 100; ++i) {
    const Time now = At(static_cast<std::int64_t>(i) * 1000);
    forecast.Sent(i, now);
    forecast.Sent(i + 1000, now);
    EXPECT_EQ(forecast.PerSecondMost(now), std::nullopt);
    forecast.Left(i, now + milliseconds(10));
    forecast.Left(i + 1000, now + milliseconds(20));
  }
}

TEST(StartForecastTest, OfABusyNodeItIsNotMuchMoreThanWhatItDoes) {
  StartForecast forecast;
  for (std::uint64_t i = 1; i <= 400; ++i) forecast.Sent(i, At(0));
  std::uint64_t next = 1;
  for (std::int64_t ms = 100; ms <= 20'000; ms += 100) forecast.Left(next++, At(ms));
  const auto most = forecast.PerSecondMost(At(20'000));
  ASSERT_TRUE(most.has_value());
  EXPECT_GE(*most, 10);  // what it did
  EXPECT_LE(*most, 12);
}

TEST(StartForecastTest, ANodeThatStartsNothingMayStartTwoMeanwhile) {
  StartForecast forecast;
  for (std::uint64_t i = 1; i <= 3; ++i) forecast.Sent(i, At(0));
  forecast.Left(99, At(10));  // unknown
  EXPECT_DOUBLE_EQ(*forecast.PerSecondMost(At(10'000)), 0.2);
}

// One prefill node that starts a request a second; requests with their deadlines come.
class EarlyRefusal : public RouterCoreTest {
 protected:
  EarlyRefusal() {
    Connect(kP1, Role::kPrefill, "p1");
    Connect(kD1, Role::kDecode, "d1");
    Usable(kP1, {"d1"});
  }
  Status SubmitWithin(Duration budget) { return Submit(++last_, Deadline(now_ + budget)); }
  void Start(std::uint64_t number) {
    core_.OnMessage(now_, kP1,
                    handoff::FirstToken{.request = {kLife, number}, .attempt = handoff::Attempt(1)},
                    out_);
  }
  // Of eight that come one begins every two seconds, and ends at once; five wait.
  void Work() {
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(SubmitWithin(seconds(3600)).ok());
    for (std::uint64_t number = 1; number <= 3; ++number) {
      now_ += seconds(2);
      Start(number);
      core_.ClientGone(now_, {kLife, number}, out_);
    }
  }

  std::uint64_t last_ = 0;
};

TEST_F(EarlyRefusal, AnIdleNodeIsTriedWhateverTheDeadline) {
  EXPECT_TRUE(SubmitWithin(milliseconds(1)).ok());
}

TEST_F(EarlyRefusal, ABurstIsTried) {
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(SubmitWithin(milliseconds(100)).ok());
}

TEST_F(EarlyRefusal, ADeadlineShorterThanTheQueueIsRefusedAtOnceAndALongerOneIsNot) {
  Work();
  // Five wait, three began in 6 s: at most seven in as long, so four take 3.4 s at least.
  const Status late = SubmitWithin(seconds(3));
  EXPECT_TRUE(absl::IsResourceExhausted(late)) << late;
  EXPECT_EQ(FromAbsl(late.message()),
            "5 requests without a token are ahead of this one, which would get its first one after "
            "3.4 s at the earliest; its deadline is in 3.0 s");
  EXPECT_EQ(core_.stats().refused, 1);
  EXPECT_EQ(core_.stats().refused_late, 1);
  EXPECT_EQ(core_.stats().requests, 5) << "unknown afterwards";
  EXPECT_TRUE(SubmitWithin(seconds(4)).ok());
  EXPECT_TRUE(Submit(++last_).ok()) << "no deadline";
}

TEST_F(EarlyRefusal, ANodeThatIsNotBusyTakesWhatTheOthersCannot) {
  Work();
  Connect(kP2, Role::kPrefill, "p2");
  Usable(kP2, {"d1"});
  EXPECT_TRUE(SubmitWithin(milliseconds(1)).ok());
}

TEST_F(EarlyRefusal, AQueueThatIsGoneRefusesNobody) {
  Work();
  for (std::uint64_t number = 4; number <= 8; ++number) {
    core_.ClientGone(now_, {kLife, number}, out_);
  }
  EXPECT_TRUE(SubmitWithin(milliseconds(1)).ok());
}

}  // namespace
}  // namespace tandem::router
