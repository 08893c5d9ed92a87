// Thousands of seeded histories with faults, every one of which must keep all promises; and what
// each kind of fault does, in a history of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "deploy/sim/campaign.h"
#include "deploy/sim/simulation.h"

namespace tandem::sim {
namespace {

// Sanitizers make a history thirty times as slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 500;
#else
constexpr std::uint64_t kSeeds = 5000;
#endif

TEST(FaultHistories, KeepEveryPromise) {
  CampaignOptions options;
  options.seeds = kSeeds;
  const CampaignSummary sum = RunCampaign(options);
  std::printf("%s", sum.ToString().c_str());
  for (const auto& failure : sum.failures)
    ADD_FAILURE() << DescribeFailure(DrawHistory(failure.seed));
  EXPECT_EQ(sum.histories, kSeeds);
  EXPECT_GE(sum.median_events, 300u);
  EXPECT_EQ(sum.repeats_different, 0);
  EXPECT_GT(sum.attempts, sum.done);
  for (std::size_t i = 0; i < kFaultKinds; ++i) {
    EXPECT_GT(sum.faults[i], 0) << ToString(static_cast<FaultKind>(i));
  }
}

// One plan under many seeds: no violation, and `expect` holds of the sum.
SimReport UnderPlan(const std::string& plan, std::uint64_t seeds = 20) {
  SimReport sum;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SimOptions options = DrawHistory(seed);
    options.prefill_nodes = options.decode_nodes = 2;
    options.cancel_percent = options.short_deadline_percent = 0;
    options.arrivals = std::chrono::milliseconds(40);
    options.faults = *ParseFaultPlan(plan);
    const SimReport report = Simulate(options);
    if (!report.ok()) ADD_FAILURE() << DescribeFailure(options);
    sum.done += report.done;
    sum.failed += report.failed;
    sum.cut += report.cut;
    sum.router.attempts += report.router.attempts;
    sum.router.repeats_different += report.router.repeats_different;
    sum.prefill.AddCounters(report.prefill);
    sum.decode.AddCounters(report.decode);
  }
  return sum;
}

TEST(FaultHistories, NoStreamFailsWhenADecodeNodeDies) {
  const SimReport sum = UnderPlan("crash decode-0 @e200 for 300ms");
  EXPECT_EQ(sum.failed, 0);
  EXPECT_GT(sum.router.attempts, sum.done);
}

TEST(FaultHistories, NoStreamFailsWhenAPrefillNodeDies) {
  EXPECT_EQ(UnderPlan("crash prefill-0 @e130 for 300ms").failed, 0);
}

TEST(FaultHistories, NoStreamFailsWhenBothWorkersOfAPairDieAtOnce) {
  EXPECT_EQ(UnderPlan("crash prefill-0 @e150 for 50ms; crash decode-0 @e150 for 50ms").failed, 0);
}

TEST(FaultHistories, NoStreamFailsWhenTheOnlyWorkersOfAKindComeBack) {
  EXPECT_EQ(UnderPlan("crash decode-0 @e200 for 700ms; crash decode-1 @e200 for 900ms").failed, 0);
}

TEST(FaultHistories, AStoppedWritersBlocksWaitForIt) {
  const SimReport sum = UnderPlan("stop prefill-0 @e140 for 4s; stop prefill-1 @e140 for 3s");
  EXPECT_EQ(sum.failed, 0);
  EXPECT_GT(sum.decode.revokes, 0);
}

TEST(FaultHistories, PartitionsHealedEarlyAndLateFailNoStream) {
  for (const char* pair : {"router prefill-0", "router decode-0", "prefill-0 decode-0"}) {
    for (const char* length : {"300ms", "1950ms", "2050ms", "4s"}) {
      const std::string plan = std::string("partition ") + pair + " @e150 for " + length;
      EXPECT_EQ(UnderPlan(plan, std::max<std::uint64_t>(kSeeds / 1000, 1)).failed, 0) << plan;
    }
  }
}

TEST(FaultHistories, CorruptBytesNeverJoin) {
  const SimReport sum = UnderPlan("corrupt prefill-0 @e90 x2; corrupt prefill-1 @e90 x2");
  EXPECT_GT(sum.decode.corrupt, 0);
  EXPECT_GT(sum.prefill.placed_again, 0);
  EXPECT_EQ(sum.router.repeats_different, 0);
}

TEST(FaultHistories, ADrainedNodeLeavesNoStreamBehind) {
  EXPECT_EQ(
      UnderPlan("drain decode-0 @e150 for 200ms x1; drain prefill-0 @e250 for 200ms x2").failed, 0);
}

TEST(FaultHistories, ANewRouterIsServedWhereTheOldOneDied) {
  const SimReport sum = UnderPlan("crash router @e200 for 100ms");
  EXPECT_GT(sum.cut, 0);
  EXPECT_GT(sum.done, 0);
  EXPECT_EQ(sum.failed, 0);
}

TEST(FaultHistories, APoisonRequestFailsAndTheFleetLives) {
  const SimReport sum = UnderPlan("poison request-1 @e1 x3");
  EXPECT_GT(sum.failed, 0);
  EXPECT_GT(sum.done, 2 * sum.failed);
}

TEST(FaultHistories, AClockThatJumpsFailsNoStream) {
  EXPECT_EQ(UnderPlan("clock-jump decode-0 @e140 for 6s; clock-jump prefill-0 @e180 for 6s").failed,
            0);
}

TEST(FaultHistories, TheSamePlanGivesTheSameHistory) {
  for (std::uint64_t seed = 40; seed < 60; ++seed) {
    SimOptions options = DrawHistory(seed);
    options.trace_lines = 1'000'000;
    EXPECT_EQ(Simulate(options).trace, Simulate(options).trace) << "seed " << seed;
  }
}

TEST(FaultHistories, AFailureIsShrunkToTheFaultThatMatters) {
  // The excuse of a poison request is taken away: only the poison can break the rule.
  SimOptions options = DrawHistory(3);
  options.faults = *ParseFaultPlan(
      "mute prefill-0 @e100 for 300ms; poison request-1 @e1 x3; slow-link router decode-0 @e50 for "
      "100ms x5");
  options.strict = true;
  ASSERT_FALSE(Simulate(options).ok());
  const SimOptions small = Shrink(options);
  ASSERT_EQ(small.faults.size(), 1u);
  EXPECT_EQ(small.faults[0].kind, FaultKind::kPoison);
  EXPECT_FALSE(Simulate(small).ok());
  EXPECT_NE(DescribeFailure(options).find("poison request-1"), std::string::npos);
}

}  // namespace
}  // namespace tandem::sim
