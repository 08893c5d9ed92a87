#include "deploy/sim/fault_plan.h"

#include <gtest/gtest.h>

#include <array>

namespace tandem::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(FaultPlan, IsReadAsItIsPrinted) {
  const std::string text =
      "crash decode-0 @e120 for 300ms; partition prefill-0 decode-1 @1500us for 3s; "
      "corrupt prefill-0 @e40 x2; slow-link router decode-0 @0s for 10ms x20";
  const auto plan = ParseFaultPlan(text);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->size(), 4u);
  EXPECT_EQ((*plan)[0].kind, FaultKind::kCrash);
  EXPECT_EQ((*plan)[0].target, "decode-0");
  EXPECT_EQ((*plan)[0].after_events, 120u);
  EXPECT_EQ((*plan)[0].length, milliseconds(300));
  EXPECT_EQ((*plan)[1].other, "decode-1");
  EXPECT_EQ((*plan)[1].at, microseconds(1500));
  EXPECT_EQ((*plan)[1].length, seconds(3));
  EXPECT_EQ((*plan)[2].count, 2);
  EXPECT_EQ(ToString(*plan), text);
}

TEST(FaultPlan, EveryDrawnPlanIsReadAsItIsPrinted) {
  SplitMix64 random(11);
  std::array<int, kFaultKinds> kinds{};
  for (int i = 0; i < 2000; ++i) {
    const FaultPlan plan = DrawFaultPlan(random, {});
    ASSERT_GE(plan.size(), 1u);
    ASSERT_LE(plan.size(), 3u);
    for (const Fault& fault : plan) ++kinds[static_cast<std::size_t>(fault.kind)];
    const auto read = ParseFaultPlan(ToString(plan));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, plan) << ToString(plan);
  }
  for (std::size_t i = 0; i < kFaultKinds; ++i) {
    EXPECT_GT(kinds[i], 20) << ToString(static_cast<FaultKind>(i));
  }
}

TEST(FaultPlan, SaysWhatIsWrong) {
  for (const char* text :
       {"crash", "melt decode-0 @e1", "crash decode-0 for 3s", "crash decode-0 @e1 for 3",
        "crash decode-0 decode-1 @e1", "cut decode-0 @e1", "crash @e1 x1", "crash king-0 @e1",
        "crash decode-0 @e", "crash decode-0 @99999999999999999999s",
        "crash decode-0 @e1 x99999999999"}) {
    const auto plan = ParseFaultPlan(text);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(plan.status().message()).find(text), std::string::npos);
  }
}

}  // namespace
}  // namespace tandem::sim
