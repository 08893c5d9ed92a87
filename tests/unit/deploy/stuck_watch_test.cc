#include "deploy/serve/stuck_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::deploy {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

// Looks every kEvery, in virtual time; the child says `say()` before each look.
class StuckWatchTest : public ::testing::Test {
 protected:
  template <typename Say>
  std::optional<std::string> Pass(Duration time, bool stopped, Say&& say) {
    const Time end = now_ + time;
    while (now_ < end) {
      now_ += StuckWatch::kEvery;
      say();
      if (auto why = watch_.Check(now_, stopped)) return why;
    }
    return std::nullopt;
  }
  std::optional<std::string> Pass(Duration time, bool stopped = false) {
    return Pass(time, stopped, [] {});
  }

  Time now_ = Time{} + seconds(1000);
  StuckWatch watch_{seconds(60)};
};

TEST_F(StuckWatchTest, AChildThatLoadsForLongIsNotStuck) {
  EXPECT_EQ(Pass(std::chrono::hours(1)), std::nullopt);
}

TEST_F(StuckWatchTest, ShortStepsAndIdlenessAreProgress) {
  Duration running{0};
  EXPECT_EQ(Pass(seconds(600), false,
                 [&] {
                   running = running < seconds(9) ? running + seconds(1) : Duration(0);
                   watch_.OnProgress(now_, running, seconds(10));
                 }),
            std::nullopt);
}

// 20 times its prediction may be long.
TEST_F(StuckWatchTest, ALongStepWithinItsOwnLimitIsNotStuck) {
  Duration running{0};
  EXPECT_EQ(Pass(seconds(500), false,
                 [&] { watch_.OnProgress(now_, running += StuckWatch::kEvery, seconds(600)); }),
            std::nullopt);
}

TEST_F(StuckWatchTest, AStepBeyondItsLimitIsKilledAfterTheTimeThoughTheProcessTalks) {
  Duration running{0};
  const Time begin = now_;
  const auto why = Pass(seconds(500), false, [&] {
    watch_.OnProgress(now_, running += StuckWatch::kEvery, seconds(10));
  });
  ASSERT_TRUE(why.has_value());
  EXPECT_THAT(*why, HasSubstr("stuck"));
  EXPECT_GE(now_ - begin, seconds(70));
  EXPECT_LE(now_ - begin, seconds(72));
}

TEST_F(StuckWatchTest, AStuckStrandSaysNothingAndIsKilled) {
  watch_.OnProgress(now_, Duration(0), Duration(0));
  const Time begin = now_;
  const auto why = Pass(seconds(500));
  ASSERT_TRUE(why.has_value());
  EXPECT_THAT(*why, HasSubstr("said nothing"));
  EXPECT_LE(now_ - begin, seconds(61));
}

TEST_F(StuckWatchTest, AStoppedChildIsKilledEvenOneThatNeverSpoke) {
  EXPECT_EQ(Pass(seconds(59), true), std::nullopt);
  EXPECT_EQ(Pass(seconds(1), false), std::nullopt) << "it was woken in time";
  const auto why = Pass(seconds(61), true);
  ASSERT_TRUE(why.has_value());
  EXPECT_THAT(*why, HasSubstr("stopped"));
}

TEST_F(StuckWatchTest, ASupervisorThatWasStoppedBlamesNobody) {
  watch_.OnProgress(now_, Duration(0), Duration(0));
  EXPECT_EQ(watch_.Check(now_, false), std::nullopt);
  now_ += seconds(3600);
  EXPECT_EQ(watch_.Check(now_, false), std::nullopt);
  EXPECT_EQ(Pass(seconds(59)), std::nullopt);
  EXPECT_NE(Pass(seconds(2)), std::nullopt) << "but it goes on watching";
}

TEST_F(StuckWatchTest, ANewLifeStartsAnew) {
  watch_.OnProgress(now_, Duration(0), Duration(0));
  Pass(seconds(59));
  watch_.Started();
  EXPECT_EQ(Pass(seconds(600)), std::nullopt);
}

TEST_F(StuckWatchTest, ZeroNeverKills) {
  StuckWatch never{Duration(0)};
  never.OnProgress(now_, seconds(5000), seconds(1));
  EXPECT_EQ(never.Check(now_ + seconds(4), true), std::nullopt);
  EXPECT_EQ(never.Check(now_ + seconds(8), true), std::nullopt);
}

}  // namespace
}  // namespace tandem::deploy
