#include "common/engine/stage_times.h"

#include <gtest/gtest.h>

#include <set>

namespace tandem::engine {
namespace {

std::chrono::nanoseconds stage_clock{0};
std::chrono::nanoseconds FakeNow() { return stage_clock; }

class StageTimesTest : public ::testing::Test {
 protected:
  static void Pass(int ns) { stage_clock += std::chrono::nanoseconds(ns); }
  StageTimes times_{2, &FakeNow};
};

TEST_F(StageTimesTest, GivesEachStageTheTimeUntilTheNext) {
  Pass(5);
  times_.Enter(0, Stage::kQkv);
  Pass(7);
  times_.Enter(0, Stage::kWait);
  Pass(2);
  times_.Enter(0, Stage::kQkv);
  Pass(30);
  times_.Enter(0, Stage::kOutside);
  EXPECT_EQ(times_.Of(0, Stage::kOutside).count(), 5);
  EXPECT_EQ(times_.Of(0, Stage::kQkv).count(), 37);
  EXPECT_EQ(times_.Of(0, Stage::kWait).count(), 2);
  EXPECT_EQ(times_.Of(0, Stage::kHead).count(), 0);
}

TEST_F(StageTimesTest, KeepsThreadsApart) {
  times_.Enter(1, Stage::kHead);
  Pass(4);
  times_.Enter(1, Stage::kOutside);
  EXPECT_EQ(times_.Of(1, Stage::kHead).count(), 4);
  EXPECT_EQ(times_.Of(0, Stage::kHead).count(), 0);
}

TEST_F(StageTimesTest, ResetForgetsTheStageInProgress) {
  times_.Enter(0, Stage::kDown);
  Pass(100);
  times_.Reset();
  Pass(3);
  times_.Enter(0, Stage::kDown);
  EXPECT_EQ(times_.Of(0, Stage::kDown).count(), 0);
  EXPECT_EQ(times_.Of(0, Stage::kOutside).count(), 3);
}

TEST_F(StageTimesTest, NamesDiffer) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kStages; ++i) names.insert(Name(static_cast<Stage>(i)));
  EXPECT_EQ(names.size(), kStages);
  EXPECT_EQ(names.count(""), 0u);
}

}  // namespace
}  // namespace tandem::engine
