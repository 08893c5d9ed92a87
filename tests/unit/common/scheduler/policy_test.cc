#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "common/base/random.h"
#include "common/scheduler/decode_policy.h"
#include "common/scheduler/node_choice.h"
#include "common/scheduler/prefill_policy.h"
#include "common/scheduler/step_time.h"

namespace tandem::scheduler {
namespace {

std::vector<int> Chunks(int budget, int block, std::vector<std::pair<int, int>> prompts) {
  std::vector<PromptProgress> progress;
  for (auto [computed, total] : prompts)
    progress.push_back({TokenCount(computed), TokenCount(total)});
  std::vector<TokenCount> chunks;
  PlanChunks(TokenCount(budget), block, progress, chunks);
  std::vector<int> out;
  for (TokenCount c : chunks) out.push_back(c.value());
  return out;
}

TEST(PlanChunks, FirstComeFirstServedWithinTheBudget) {
  EXPECT_EQ(Chunks(100, 16, {{0, 30}, {0, 40}, {0, 500}}), (std::vector<int>{30, 40, 16}));
  EXPECT_EQ(Chunks(64, 16, {{64, 200}, {0, 10}}), (std::vector<int>{64, 0}));
}

TEST(PlanChunks, ChunksEndOnBlocksExceptTheLast) {
  EXPECT_EQ(Chunks(50, 16, {{0, 100}}), (std::vector<int>{48}));
  EXPECT_EQ(Chunks(50, 16, {{96, 100}}), (std::vector<int>{4}));
  EXPECT_EQ(Chunks(3, 16, {{0, 100}}), (std::vector<int>{16}));  // at least a block
}

TEST(StepTokensTest, AStepHasAllItMayWithoutASliceOrAFit) {
  const ChunkLimit limit{.most = TokenCount(500), .block_size = 16, .pieces = 60};
  EXPECT_EQ(StepTokens(limit, {.per_token_s = 1}, TokenCount(0)), TokenCount(500));
  ChunkLimit sliced = limit;
  sliced.slice = std::chrono::milliseconds(5);
  EXPECT_EQ(StepTokens(sliced, {}, TokenCount(0)), TokenCount(500));
}

TEST(StepTokensTest, AStepsPiecesEndWithinHalfASlice) {
  const ChunkLimit limit{.most = TokenCount(512),
                         .block_size = 16,
                         .pieces = 50,
                         .slice = std::chrono::milliseconds(8)};  // 200 ms a step
  const StepTime fit{.fixed_s = 0.02, .per_token_s = 5e-4, .per_pair_s = 1e-7};
  for (int computed : {0, 1024, 4096}) {
    const int tokens = StepTokens(limit, fit, TokenCount(computed)).value();
    EXPECT_EQ(tokens % 16, 0);
    EXPECT_LE(fit.Seconds(tokens, ChunkPairs(computed, tokens)), 0.2);
    EXPECT_GT(fit.Seconds(tokens + 16, ChunkPairs(computed, tokens + 16)), 0.2);
  }
  EXPECT_LT(StepTokens(limit, fit, TokenCount(4096)), StepTokens(limit, fit, TokenCount(0)));
}

TEST(StepTokensTest, NeitherTooFewNorTooMany) {
  ChunkLimit limit{.most = TokenCount(512),
                   .block_size = 16,
                   .pieces = 50,
                   .slice = std::chrono::nanoseconds(1)};
  const StepTime fit{.per_token_s = 1e-3};
  EXPECT_EQ(StepTokens(limit, fit, TokenCount(0)), kFewestTokens);
  limit.most = TokenCount(20);
  EXPECT_EQ(StepTokens(limit, fit, TokenCount(0)), TokenCount(20));
  limit = {.most = TokenCount(500), .pieces = 50, .slice = std::chrono::hours(1)};
  EXPECT_EQ(StepTokens(limit, fit, TokenCount(0)), TokenCount(500));
  limit.block_size = 128;  // more than the fewest
  limit.slice = std::chrono::nanoseconds(1);
  EXPECT_EQ(StepTokens(limit, fit, TokenCount(0)), TokenCount(128));
}

TEST(PlanDecode, AllRunWhenThereIsRoom) {
  std::vector<DecodeCandidate> c(3);
  std::vector<DecodeChoice> choices;
  PlanDecode(c, kv::BlockCount(0), 8, 0, choices);
  EXPECT_EQ(choices, std::vector<DecodeChoice>(3, DecodeChoice::kRun));
}

TEST(PlanDecode, TheYoungestPaysForTheOldest) {
  std::vector<DecodeCandidate> c(3);
  c[0].needs_block = true;
  c[2].gives_back = kv::BlockCount(2);
  std::vector<DecodeChoice> choices;
  PlanDecode(c, kv::BlockCount(0), 8, 0, choices);
  EXPECT_EQ(choices, (std::vector<DecodeChoice>{DecodeChoice::kRun, DecodeChoice::kRun,
                                                DecodeChoice::kPreempt}));
}

TEST(PlanDecode, TheYoungestIsPreemptedForItselfAndALoneOneWaits) {
  std::vector<DecodeCandidate> c(2);
  c[1].needs_block = true;
  std::vector<DecodeChoice> choices;
  PlanDecode(c, kv::BlockCount(0), 8, 0, choices);
  EXPECT_EQ(choices[1], DecodeChoice::kPreempt);
  c.resize(1);
  c[0].needs_block = true;
  choices.clear();
  PlanDecode(c, kv::BlockCount(0), 8, 0, choices);
  EXPECT_EQ(choices[0], DecodeChoice::kWait);
}

TEST(PlanDecode, WithoutCreditNoPlaceAndTurnsAreTaken) {
  std::vector<DecodeCandidate> c(3);
  c[1].has_credit = false;
  std::vector<DecodeChoice> choices;
  PlanDecode(c, kv::BlockCount(9), 1, 1, choices);
  EXPECT_EQ(choices, (std::vector<DecodeChoice>{DecodeChoice::kWait, DecodeChoice::kWait,
                                                DecodeChoice::kRun}));
}

// Blocks never go below zero and the oldest that needs one and can be served, is.
TEST(PlanDecode, NeverSpendsMoreThanThereIs) {
  const std::uint64_t seed = 3;
  SCOPED_TRACE(seed);
  SplitMix64 random(seed);
  for (int round = 0; round < 5000; ++round) {
    std::vector<DecodeCandidate> c(1 + random.Below(8));
    for (DecodeCandidate& candidate : c) {
      candidate.has_credit = random.Below(4) > 0;
      candidate.needs_block = random.Below(2) == 0;
      candidate.gives_back = kv::BlockCount(static_cast<int>(random.Below(3)));
    }
    const int available = static_cast<int>(random.Below(4));
    std::vector<DecodeChoice> choices;
    PlanDecode(c, kv::BlockCount(available), 4, random.Below(c.size()), choices);
    int left = available, running = 0;
    for (std::size_t i = 0; i < c.size(); ++i) {
      if (choices[i] == DecodeChoice::kPreempt) left += c[i].gives_back.value();
      if (choices[i] != DecodeChoice::kRun) continue;
      ++running;
      ASSERT_TRUE(c[i].has_credit);
      left -= c[i].needs_block ? 1 : 0;
    }
    ASSERT_GE(left, 0);
    ASSERT_LE(running, 4);
    ASSERT_NE(choices[0], DecodeChoice::kPreempt);
  }
}

TEST(NodeChoice, EqualPrefillNodesTakeTurns) {
  std::vector<PrefillLoad> nodes(2);
  std::vector<int> chosen(2);
  for (std::uint64_t i = 1; i <= 10; ++i) {
    const std::size_t n = ChoosePrefill(TokenCount(100), nodes);
    nodes[n].last_chosen = i;
    ++chosen[n];
  }
  EXPECT_EQ(chosen, (std::vector<int>{5, 5}));
}

TEST(NodeChoice, PrefersTheCachedPrefixUnlessItsQueueIsLonger) {
  std::vector<PrefillLoad> nodes(2);
  nodes[1].cached_tokens = TokenCount(80);
  EXPECT_EQ(ChoosePrefill(TokenCount(100), nodes), 1u);
  nodes[1].queued_tokens = TokenCount(500);
  EXPECT_EQ(ChoosePrefill(TokenCount(100), nodes), 0u);
}

TEST(NodeChoice, DecodeNodesWithRoomComeFirstThenTheIdle) {
  std::vector<DecodeLoad> nodes(3);
  nodes[0] = {.free_blocks = kv::BlockCount(1), .sequences = 0};
  nodes[1] = {.free_blocks = kv::BlockCount(50), .sequences = 9};
  nodes[2] = {.free_blocks = kv::BlockCount(50), .sequences = 2};
  EXPECT_EQ(RankDecode(kv::BlockCount(10), nodes), (std::vector<std::size_t>{2, 1, 0}));
}

TEST(StepTimeFit, FindsTheCoefficientsAndFollowsAChange) {
  const std::uint64_t seed = 9;
  SCOPED_TRACE(seed);
  SplitMix64 random(seed);
  StepTimeFit fit;
  auto feed = [&](double fixed, double token, double pair) {
    for (int i = 0; i < 1500; ++i) {
      const double tokens = 1 + static_cast<double>(random.Below(512));
      const double pairs = tokens * static_cast<double>(random.Below(1000));
      const double s = fixed + token * tokens + pair * pairs;
      fit.Observe(tokens, pairs, Duration(static_cast<std::int64_t>(s * 1e9)));
    }
  };
  feed(1e-3, 2e-5, 3e-9);
  EXPECT_NEAR(fit.time().Seconds(300, 1e5), 1e-3 + 6e-3 + 3e-4, 1e-4);
  feed(2e-3, 4e-5, 6e-9);
  EXPECT_NEAR(fit.time().Seconds(300, 1e5), 2e-3 + 12e-3 + 6e-4, 2e-4);
}

TEST(StepTimeFit, StepsThatWereHeldUpBendNothing) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    SplitMix64 random(seed);
    StepTimeFit fit;
    for (int i = 0; i < 400; ++i) {
      const double tokens = 1 + static_cast<double>(random.Below(512));
      const double pairs = tokens * static_cast<double>(random.Below(1000));
      double s = 1e-3 + 2e-5 * tokens + 3e-9 * pairs;
      s *= 0.97 + 0.06 * random.Unit();
      if (random.Below(10) == 0) s *= 1 + 10 * random.Unit();  // another program had the cores
      fit.Observe(tokens, pairs, Duration(static_cast<std::int64_t>(s * 1e9)));
    }
    EXPECT_NEAR(fit.time().Seconds(300, 1e5), 7.3e-3, 0.15 * 7.3e-3);
    EXPECT_NEAR(fit.time().Seconds(16, 100), 1.32e-3, 0.25 * 1.32e-3);
  }
}

TEST(StepTimeFit, FollowsAChangeWithinAHundredSteps) {
  StepTimeFit fit;
  const auto feed = [&](int steps, double token) {
    for (int i = 0; i < steps; ++i) {
      const double tokens = 16 * (1 + i % 32);
      fit.Observe(tokens, 0, Duration(static_cast<std::int64_t>((1e-3 + token * tokens) * 1e9)));
    }
  };
  feed(500, 2e-5);
  feed(100, 6e-5);
  EXPECT_NEAR(fit.time().Seconds(512, 0), 1e-3 + 512 * 6e-5, 0.25 * 0.0317);
  feed(400, 6e-5);
  EXPECT_NEAR(fit.time().Seconds(512, 0), 1e-3 + 512 * 6e-5, 0.02 * 0.0317);
}

TEST(StepTimeFit, TellsHowFarItsPredictionsWereOff) {
  StepTimeFit fit;
  EXPECT_EQ(fit.quality().error, 0);
  for (int i = 0; i < 200; ++i) {  // a tenth off, one way or the other, whatever it does
    const double s = 1e-2 * (i % 2 == 0 ? 0.9 : 1.1);
    fit.Observe(1, 0, Duration(static_cast<std::int64_t>(s * 1e9)));
  }
  EXPECT_NEAR(fit.quality().error, 0.1, 0.02);
  EXPECT_EQ(fit.quality().observations, 200);
  EXPECT_EQ(fit.Predict(1, 0), Duration(static_cast<std::int64_t>(fit.time().Seconds(1, 0) * 1e9)));
}

TEST(StepTimeFit, NeverPredictsLessThanNothing) {
  StepTimeFit fit;
  fit.Observe(10, 0, std::chrono::milliseconds(5));
  fit.Observe(500, 0, std::chrono::milliseconds(1));  // noise: more tokens, less time
  EXPECT_GE(fit.time().fixed_s, 0);
  EXPECT_GE(fit.time().per_token_s, 0);
  EXPECT_GE(fit.time().Seconds(1e6, 1e9), 0);
  EXPECT_TRUE(std::isfinite(fit.time().Seconds(1e6, 1e9)));
}

}  // namespace
}  // namespace tandem::scheduler
