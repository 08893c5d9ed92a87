#include "common/engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "common/base/random.h"

namespace tandem::engine {
namespace {

using sequence::SamplingParams;

const ops::OpsContext& Context() {
  static const ops::OpsContext context =
      *ops::OpsContext::Create({.max_inner_size = 1, .head_dim = 1});
  return context;
}

std::vector<float> RandomLogits(std::size_t size, std::uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<float> logits(size);
  for (float& x : logits) x = static_cast<float>(random.Unit() * 12 - 6);
  return logits;
}

int Draw(const std::vector<float>& logits, const SamplingParams& params, int position) {
  Sampler sampler(Context(), static_cast<std::int32_t>(logits.size()));
  auto choice = sampler.Sample(logits, params, Position(position));
  EXPECT_TRUE(choice.ok()) << choice.status();
  return choice.ok() ? choice->token.value() : -1;
}

// The tokens that many positions draw, with their shares.
std::map<int, double> Shares(const std::vector<float>& logits, SamplingParams params) {
  constexpr int kDraws = 20000;
  std::map<int, double> shares;
  for (int i = 0; i < kDraws; ++i) shares[Draw(logits, params, i)] += 1.0 / kDraws;
  return shares;
}

TEST(SamplerTest, GreedyTakesTheLargestAndTiesGoToTheLowerId) {
  EXPECT_EQ(Draw({1, 5, 2, 5, 0}, {.temperature = 0, .stop_token_ids = {}}, 0), 1);
  EXPECT_EQ(Draw({-7, -9, -7}, {.temperature = 0, .stop_token_ids = {}}, 3), 0);
}

TEST(SamplerTest, LogprobIsOfTheRawDistribution) {
  const std::vector<float> logits = {0.5f, 2.0f, -1.0f, 1.0f};
  double sum = 0;
  for (float x : logits) sum += std::exp(static_cast<double>(x));
  Sampler sampler(Context(), 4);
  for (float temperature : {0.0f, 0.5f, 2.0f}) {
    auto choice = sampler.Sample(
        logits, {.temperature = temperature, .top_k = 2, .seed = 3, .stop_token_ids = {}},
        Position(1));
    ASSERT_TRUE(choice.ok());
    const double logit = logits[static_cast<std::size_t>(choice->token.value())];
    EXPECT_NEAR(choice->logprob, logit - std::log(sum), 1e-5);
  }
}

TEST(SamplerTest, SharesFollowTheTemperedDistribution) {
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f};
  const auto shares = Shares(logits, {.temperature = 0.5f, .seed = 11, .stop_token_ids = {}});
  const double sum = 1 + std::exp(2.0) + std::exp(4.0);
  EXPECT_NEAR(shares.at(0), 1 / sum, 0.01);
  EXPECT_NEAR(shares.at(1), std::exp(2.0) / sum, 0.015);
  EXPECT_NEAR(shares.at(2), std::exp(4.0) / sum, 0.015);
}

TEST(SamplerTest, TopKKeepsTheBestAndTiesGoToTheLowerId) {
  const auto shares = Shares({1, 3, 1, 2, 1}, {.top_k = 3, .seed = 5, .stop_token_ids = {}});
  EXPECT_THAT(shares, ::testing::UnorderedElementsAre(::testing::Key(0), ::testing::Key(1),
                                                      ::testing::Key(3)));
}

TEST(SamplerTest, TopPKeepsTheFewestThatHoldTheMass) {
  // Shares 0.5, 0.25, 0.15, 0.1.
  std::vector<float> logits;
  for (float p : {0.1f, 0.5f, 0.15f, 0.25f}) logits.push_back(std::log(p));
  const auto keys = [&](float top_p) {
    std::vector<int> out;
    for (const auto& [id, share] :
         Shares(logits, {.top_p = top_p, .seed = 2, .stop_token_ids = {}})) {
      out.push_back(id);
    }
    return out;
  };
  EXPECT_EQ(keys(0.01f), (std::vector<int>{1}));
  EXPECT_EQ(keys(0.6f), (std::vector<int>{1, 3}));
  EXPECT_EQ(keys(0.8f), (std::vector<int>{1, 2, 3}));
}

TEST(SamplerTest, TopPIsOfWhatTopKLeft) {
  std::vector<float> logits;
  for (float p : {0.4f, 0.3f, 0.2f, 0.1f}) logits.push_back(std::log(p));
  // Of the best two, the first holds 0.57.
  const auto shares = Shares(logits, {.top_k = 2, .top_p = 0.55f, .seed = 2, .stop_token_ids = {}});
  EXPECT_THAT(shares, ::testing::ElementsAre(::testing::Key(0)));
}

TEST(SamplerTest, MinPComesAfterTheTemperature) {
  const std::vector<float> logits = {2.0f, 1.0f, 0.0f};
  // Against the best: e^-1 = 0.37 at temperature 1, e^-0.5 = 0.61 at 2.
  const auto cold =
      Shares(logits, {.temperature = 1, .min_p = 0.5f, .seed = 4, .stop_token_ids = {}});
  const auto warm =
      Shares(logits, {.temperature = 2, .min_p = 0.5f, .seed = 4, .stop_token_ids = {}});
  EXPECT_THAT(cold, ::testing::ElementsAre(::testing::Key(0)));
  EXPECT_THAT(warm, ::testing::ElementsAre(::testing::Key(0), ::testing::Key(1)));
}

TEST(SamplerTest, AFunctionOfSeedAndPositionWhateverWasDrawnBefore) {
  const auto logits = RandomLogits(5000, 1);
  const SamplingParams params{.seed = 99, .stop_token_ids = {}};
  Sampler used(Context(), 5000);
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(used.Sample(RandomLogits(5000, 7), params, Position(i)).ok());
  std::map<int, int> tokens;
  for (int position = 0; position < 50; ++position) {
    auto choice = used.Sample(logits, params, Position(position));
    ASSERT_TRUE(choice.ok());
    EXPECT_EQ(choice->token.value(), Draw(logits, params, position));
    ++tokens[choice->token.value()];
  }
  EXPECT_GT(tokens.size(), 25u);
  SamplingParams other = params;
  other.seed = 100;
  EXPECT_NE(Draw(logits, params, 0), Draw(logits, other, 0));
}

TEST(SamplerTest, FiltersThatKeepAllDrawWhatNoFilterDraws) {
  const auto logits = RandomLogits(3000, 2);
  for (int position = 0; position < 200; ++position) {
    const int plain = Draw(logits, {.seed = 8, .stop_token_ids = {}}, position);
    EXPECT_EQ(Draw(logits, {.top_k = 3000, .seed = 8, .stop_token_ids = {}}, position), plain);
  }
}

TEST(SamplerTest, LogitsThatAreNotNumbersAreAnError) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  Sampler sampler(Context(), 3);
  for (const std::vector<float>& logits :
       {std::vector<float>{1, nan, 2}, std::vector<float>{1, inf, 2},
        std::vector<float>{-inf, -inf, -inf}}) {
    EXPECT_EQ(sampler.Sample(logits, {.stop_token_ids = {}}, Position(0)).status().code(),
              absl::StatusCode::kInternal);
  }
  EXPECT_TRUE(
      sampler.Sample(std::vector<float>{1, -inf, 2}, {.stop_token_ids = {}}, Position(0)).ok());
}

}  // namespace
}  // namespace tandem::engine
