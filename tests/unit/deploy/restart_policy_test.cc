#include "deploy/serve/restart_policy.h"

#include <gtest/gtest.h>

namespace tandem::deploy {
namespace {

using What = RestartPolicy::What;
using std::chrono::milliseconds;
using std::chrono::seconds;

Time At(Duration since) { return Time{} + since; }

// Ends `life` after it was ready.
RestartPolicy::Decision Live(RestartPolicy& policy, Time& now, Duration life, bool well) {
  policy.Started();
  policy.Ready(now);
  now += life;
  return policy.Ended(now, well);
}

TEST(RestartPolicy, ADeathAfterALongLifeIsFollowedByAQuickRestart) {
  RestartPolicy policy({}, 1);
  Time now = At(seconds(100));
  for (int i = 0; i < 20; ++i) {
    const auto decision = Live(policy, now, seconds(60), false);
    ASSERT_EQ(decision.what, What::kRestart);
    EXPECT_GE(decision.at - now, milliseconds(150));
    EXPECT_LE(decision.at - now, milliseconds(250));
    now = decision.at;
  }
}

TEST(RestartPolicy, EarlyDeathsBackOffAndAreGivenUpAfterTheFifthInARow) {
  RestartPolicy policy({}, 2);
  Time now = At(seconds(100));
  Duration nominal = milliseconds(200);
  for (int i = 1; i < 5; ++i, nominal *= 2) {
    const auto decision = Live(policy, now, seconds(1), false);
    ASSERT_EQ(decision.what, What::kRestart) << i;
    EXPECT_GE(decision.at - now, nominal * 3 / 4);
    EXPECT_LE(decision.at - now, nominal * 5 / 4);
    now = decision.at;
  }
  EXPECT_EQ(Live(policy, now, seconds(1), false).what, What::kGiveUp);
  EXPECT_EQ(policy.early_deaths(), 5);
}

TEST(RestartPolicy, ALongLifeForgivesEarlyDeaths) {
  RestartPolicy policy({}, 3);
  Time now = At(seconds(100));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(Live(policy, now, seconds(1), false).what, What::kRestart);
    EXPECT_EQ(Live(policy, now, seconds(11), false).what, What::kRestart);
  }
}

TEST(RestartPolicy, DyingBeforeItWasReadyIsEarlyHoweverLongItTook) {
  RestartPolicy policy({}, 4);
  Time now = At(seconds(100));
  RestartPolicy::Decision decision;
  for (int i = 0; i < 5; ++i) {
    policy.Started();
    now += std::chrono::minutes(10);
    decision = policy.Ended(now, false);
  }
  EXPECT_EQ(decision.what, What::kGiveUp);
}

TEST(RestartPolicy, BackOffHasABound) {
  RestartPolicy policy({.early_deaths_max = 0}, 5);
  Time now = At(seconds(100));
  for (int i = 0; i < 100; ++i) {
    const auto decision = Live(policy, now, seconds(1), false);
    ASSERT_EQ(decision.what, What::kRestart);
    EXPECT_LE(decision.at - now, milliseconds(12500));
  }
}

TEST(RestartPolicy, ADrainedNodeComesBackWithAlwaysAndIsNeverGivenUp) {
  RestartPolicy policy({}, 6);
  Time now = At(seconds(100));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Live(policy, now, seconds(1), true).what, What::kRestart);
}

TEST(RestartPolicy, OnFailureLeavesWhatEndedWell) {
  RestartPolicy policy({.mode = RestartMode::kOnFailure}, 7);
  Time now = At(seconds(100));
  EXPECT_EQ(Live(policy, now, seconds(60), false).what, What::kRestart);
  EXPECT_EQ(Live(policy, now, seconds(60), true).what, What::kLeave);
}

TEST(RestartPolicy, NeverMakesAnyEndTheClusters) {
  RestartPolicy policy({.mode = RestartMode::kNever}, 8);
  Time now = At(seconds(100));
  EXPECT_EQ(Live(policy, now, seconds(60), false).what, What::kGiveUp);
  EXPECT_EQ(Live(policy, now, seconds(60), true).what, What::kGiveUp);
}

}  // namespace
}  // namespace tandem::deploy
