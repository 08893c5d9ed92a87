#include "common/handoff/silence_watch.h"

#include <gtest/gtest.h>

namespace tandem::handoff {
namespace {

Time At(std::int64_t ms) { return Time{} + std::chrono::milliseconds(ms); }

TEST(SilenceWatch, RouterHearsNothingFromDecodeNodeFor1900Ms) {
  SilenceWatch watch(kSilenceLimit, At(0));
  EXPECT_FALSE(watch.IsSilent(At(1900)));
  watch.Heard(At(1900));
  EXPECT_FALSE(watch.IsSilent(At(2100)));
  EXPECT_EQ(watch.deadline(), At(3900));
}

TEST(SilenceWatch, RouterHearsNothingFromDecodeNodeFor2100Ms) {
  SilenceWatch watch(kSilenceLimit, At(0));
  EXPECT_EQ(watch.deadline(), At(2000));
  EXPECT_FALSE(watch.IsSilent(At(1999)));
  EXPECT_TRUE(watch.IsSilent(At(2000)));
  EXPECT_TRUE(watch.IsSilent(At(2100)));
}

TEST(SilenceWatch, AnOlderSignOfLifeMovesNothingBack) {
  SilenceWatch watch(kSilenceLimit, At(500));
  watch.Heard(At(100));
  EXPECT_EQ(watch.deadline(), At(2500));
}

}  // namespace
}  // namespace tandem::handoff
