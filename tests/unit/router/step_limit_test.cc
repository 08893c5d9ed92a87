#include "router/core/step_limit.h"

#include <gtest/gtest.h>

#include <limits>

namespace tandem::router {
namespace {

using std::chrono::seconds;

handoff::Hello Node(handoff::Role role) {
  handoff::Hello hello;
  hello.role = role;
  hello.capacity = {
      .num_blocks = kv::BlockCount(1000), .max_context = TokenCount(32768), .max_sequences = 8};
  hello.layout.block_size = 16;
  return hello;
}

TEST(StepLimitTest, TenSecondsForAShortStep) {
  handoff::Heartbeat load;
  load.fit = {.fixed_s = 0.01, .per_token_s = 0.001, .per_pair_s = 0};
  load.queued_tokens = TokenCount(100);
  EXPECT_EQ(StepLimit(Node(handoff::Role::kPrefill), load), seconds(10));
}

TEST(StepLimitTest, ALongPromptMayTakeTwentyTimesItsPrediction) {
  handoff::Heartbeat load;
  load.fit = {.fixed_s = 0, .per_token_s = 0.01, .per_pair_s = 0};
  load.queued_tokens = TokenCount(500);
  EXPECT_EQ(StepLimit(Node(handoff::Role::kPrefill), load), seconds(100));
}

TEST(StepLimitTest, AQueueOfManyStepsMakesNoStepLonger) {
  handoff::Heartbeat load;
  load.fit = {.fixed_s = 0, .per_token_s = 0.001, .per_pair_s = 0};
  load.queued_tokens = TokenCount(10'000'000);
  EXPECT_LT(StepLimit(Node(handoff::Role::kPrefill), load), seconds(200));
}

TEST(StepLimitTest, TheFirstPromptOfASlowNodeIsNoDeath) {
  handoff::Heartbeat load;  // nothing was measured yet
  load.queued_tokens = TokenCount(2048);
  EXPECT_GT(StepLimit(Node(handoff::Role::kPrefill), load), seconds(600));
}

TEST(StepLimitTest, DecodeCountsSequencesAndUsedBlocks) {
  handoff::Heartbeat load;
  load.running = 10;
  load.free_blocks = kv::BlockCount(900);
  load.fit = {.fixed_s = 0.1, .per_token_s = 0.05, .per_pair_s = 0.001};
  // 0.1 + 0.5 + 1.6 seconds.
  EXPECT_EQ(StepLimit(Node(handoff::Role::kDecode), load), seconds(44));
}

TEST(StepLimitTest, NonsenseFromTheWireHasALimitToo) {
  handoff::Heartbeat load;
  load.queued_tokens = TokenCount(100);
  load.fit = {
      .fixed_s = std::numeric_limits<double>::quiet_NaN(), .per_token_s = 1, .per_pair_s = 0};
  EXPECT_GE(StepLimit(Node(handoff::Role::kPrefill), load), seconds(10));
  load.fit = {.fixed_s = 1e300, .per_token_s = 1, .per_pair_s = 0};
  EXPECT_LE(StepLimit(Node(handoff::Role::kPrefill), load), std::chrono::hours(24));
  load.fit = {.fixed_s = 0, .per_token_s = -1e9, .per_pair_s = 1};
  EXPECT_GE(StepLimit(Node(handoff::Role::kPrefill), load), seconds(10));
}

}  // namespace
}  // namespace tandem::router
