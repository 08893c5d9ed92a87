#include <gtest/gtest.h>

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
