#include "deploy/bench/own_lateness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::deploy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(OwnLateness, ToleratesOnePercentOfLateSends) {
  OwnLateness own(milliseconds(10));
  for (int i = 0; i < 198; ++i) own.OnSend(milliseconds(10));
  own.OnSend(milliseconds(11));
  own.OnSend(milliseconds(25));
  EXPECT_THAT(own.Faults(seconds(10)), IsEmpty());
  own.OnSend(milliseconds(12));
  EXPECT_THAT(own.Faults(seconds(10)), ElementsAre(HasSubstr("3 of 201")));
  EXPECT_EQ(own.latest_send(), milliseconds(25));
}

TEST(OwnLateness, ToleratesOnePercentOfStalls) {
  OwnLateness own(milliseconds(10));
  for (int i = 0; i < 1000; ++i) own.OnTick(milliseconds(9));
  own.OnTick(milliseconds(100));
  EXPECT_THAT(own.Faults(seconds(10)), IsEmpty());
  EXPECT_EQ(own.longest_stall(), milliseconds(100));
  own.OnTick(milliseconds(11));
  EXPECT_THAT(own.Faults(seconds(10)), ElementsAre(HasSubstr("longest stall 100.0 ms")));
}

TEST(OwnLateness, NothingDueMayBeLeftOut) {
  OwnLateness own(milliseconds(10));
  for (int i = 0; i < 1000; ++i) own.OnSend({});
  own.OnNotSent();
  EXPECT_THAT(own.Faults(seconds(10)), ElementsAre(HasSubstr("1 requests were due")));
}

}  // namespace
}  // namespace tandem::deploy
