// Same request, same bytes: tokens, logits and KV of a request are a function of the model, its
// prompt, its parameters and its seed, whatever it is computed with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/base/cpu_features.h"
#include "common/base/random.h"
#include "common/ops/kernels.h"
#include "common/ops/numerics_class.h"
#include "tests/integration/engine/rig.h"
#include "tests/testing/model_generator.h"
#include "tests/testing/paths.h"

namespace tandem::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRequests = 24;  // sanitizers: an eighth, as they are 5 to 20 times slower
#else
constexpr int kRequests = 200;
#endif
constexpr std::int32_t kGenerated = 8;

// Greedy and seeded, all filters among them; every eighth prompt fills more than a key chunk of 64.
std::vector<RigRequest> MakeRequests(int count, std::int32_t vocab_size, std::int32_t generated) {
  std::vector<RigRequest> requests;
  SplitMix64 random(7);
  for (int i = 0; i < count; ++i) {
    RigRequest request;
    const std::uint64_t length = i % 8 == 0 ? 60 + random.Below(80) : 1 + random.Below(20);
    for (std::uint64_t t = 0; t < length; ++t) {
      request.prompt.push_back(
          TokenId(static_cast<std::int32_t>(random.Below(static_cast<std::uint64_t>(vocab_size)))));
    }
    sequence::SamplingParams& params = request.params;
    params.max_tokens = TokenCount(generated);
    params.temperature = i % 3 == 0 ? 0.0f : 0.7f + 0.1f * static_cast<float>(i % 5);
    params.seed = random.Next();
    if (i % 4 == 1) params.top_k = 20;
    if (i % 5 == 2) params.top_p = 0.9f;
    if (i % 7 == 3) params.min_p = 0.05f;
    requests.push_back(std::move(request));
  }
  return requests;
}

// The attempts that a fail-over makes: for every generated position, the prompt and all tokens
// before it, prefilled again.
std::vector<RigRequest> Attempts(const std::vector<RigRequest>& requests,
                                 const std::vector<RigResult>& results) {
  std::vector<RigRequest> attempts;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (std::size_t before = 1; before < results[i].tokens.size(); ++before) {
      RigRequest attempt = requests[i];
      attempt.earlier.assign(results[i].tokens.begin(),
                             results[i].tokens.begin() + static_cast<std::ptrdiff_t>(before));
      attempts.push_back(std::move(attempt));
    }
  }
  return attempts;
}

::testing::AssertionResult Same(const model::Model& model, const std::vector<RigResult>& expected,
                                const std::vector<RigResult>& actual) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::string difference = FirstDifference(model, expected[i], actual[i], 0);
    if (difference.empty()) continue;
    return ::testing::AssertionFailure() << "request " << i << ": " << difference;
  }
  return ::testing::AssertionSuccess();
}

std::unique_ptr<model::Model> Load(const std::string& path, ops::NumericsClass numerics) {
  auto model = model::Model::Load(
      path, {.numerics = std::string(ops::Name(numerics)), .threads = 2, .progress = nullptr});
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

std::unique_ptr<EngineRig> RigOf(const model::Model& model, int threads) {
  return std::make_unique<EngineRig>(model, EngineRig::Options{.threads = threads});
}

// Sizes that no vector width divides, query heads in groups of 3.
TestModel AwkwardFloat() {
  ModelSpec spec = ModelSpec::Of(Arch::kMistral);
  spec.layers = 2;
  spec.hidden = 54;
  spec.heads = 6;
  spec.kv_heads = 2;
  spec.head_dim = 10;
  spec.ff = 76;
  spec.sliding_window = 37;
  spec.context = 4096;
  return GenerateModel(spec, {.seed = 3, .dtype = formats::DType::kF32});
}

TestModel AwkwardQuantized() {
  ModelSpec spec = ModelSpec::Of(Arch::kQwen3);
  spec.layers = 2;
  spec.context = 4096;
  return GenerateModel(spec, {.seed = 4,
                              .dtype = formats::DType::kQ4_1,
                              .dtype_of = {{"down_proj.weight", formats::DType::kQ5_0},
                                           {"k_proj.weight", formats::DType::kQ8_0},
                                           {"v_proj.weight", formats::DType::kBF16},
                                           {"embed_tokens.weight", formats::DType::kQ8_0}}});
}

struct Case {
  std::string name;
  ops::NumericsClass numerics;
  TestModel (*make)();
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (ops::NumericsClass numerics : ops::SupportedClasses(DetectCpuFeatures())) {
    std::string name(ops::Name(numerics));
    std::replace(name.begin(), name.end(), '-', '_');
    cases.push_back({name + "_float", numerics, &AwkwardFloat});
    cases.push_back({name + "_quantized", numerics, &AwkwardQuantized});
  }
  return cases;
}

class SameBytesTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const TestModel made = GetParam().make();
    made.WriteGguf(folder_.File("model.gguf"));
    model_ = Load(folder_.File("model.gguf"), GetParam().numerics);
    ASSERT_NE(model_, nullptr);
    for (int threads : {1, 2}) rigs_.push_back(RigOf(*model_, threads));
    requests_ = MakeRequests(kRequests, model_->config().vocab_size, kGenerated);
    expected_ = rigs_[0]->Run(requests_, {.batch = 1, .chunk = 0, .threads = 1, .seed = 1});
    std::printf("%d requests\n", kRequests);
  }

  EngineRig& rig(int threads) { return *rigs_[static_cast<std::size_t>(threads - 1)]; }

  TempDir folder_;
  std::unique_ptr<model::Model> model_;
  std::vector<std::unique_ptr<EngineRig>> rigs_;  // by threads - 1
  std::vector<RigRequest> requests_;
  std::vector<RigResult> expected_;  // each alone, prompt whole, one thread
};

TEST_P(SameBytesTest, WhateverTheBatchTheChunkAndTheThreads) {
  constexpr RigPlan kPlans[] = {{2, 7, 2, 11},  {5, 1, 2, 12},  {1, 64, 2, 13},
                                {32, 0, 1, 14}, {32, 7, 2, 15}, {8, 64, 1, 16}};
  for (const RigPlan& plan : kPlans) {
    EXPECT_TRUE(Same(*model_, expected_, rig(plan.threads).Run(requests_, plan)))
        << plan.ToString();
  }
}

TEST_P(SameBytesTest, AfterAPrefillOfTheTokensSoFarAtEveryPosition) {
  const std::vector<RigRequest> attempts = Attempts(requests_, expected_);
  const RigPlan plan{.batch = 16, .chunk = 0, .threads = 2, .seed = 5};
  const std::vector<RigResult> results = rig(2).Run(attempts, plan);
  std::size_t next = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    for (std::size_t before = 1; before < expected_[i].tokens.size(); ++before, ++next) {
      EXPECT_EQ(FirstDifference(*model_, expected_[i], results[next], before), "")
          << "request " << i << " prefilled again with " << before << " generated tokens";
    }
  }
  EXPECT_EQ(next, results.size());
}

// The test can fail: neighbours in the vocabulary give other bytes.
TEST_P(SameBytesTest, AndOtherRequestsHaveOtherBytes) {
  std::vector<RigRequest> others = requests_;
  for (RigRequest& other : others) {
    other.prompt.back() = TokenId((other.prompt.back().value() + 1) % model_->config().vocab_size);
  }
  const auto results = rig(1).Run(others, {.batch = 32, .chunk = 0, .threads = 1, .seed = 2});
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_THAT(FirstDifference(*model_, expected_[i], results[i], 0),
                ::testing::HasSubstr("layer"));
  }
}

INSTANTIATE_TEST_SUITE_P(Classes, SameBytesTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Generation begins before the end of a segment of keys and ends behind it.
TEST_P(SameBytesTest, BeyondASegmentOfKeys) {
  std::vector<RigRequest> longer = MakeRequests(2, model_->config().vocab_size, 30);
  SplitMix64 random(8);
  for (RigRequest& request : longer) {
    while (std::ssize(request.prompt) < ops::kKeySegment - 12) {
      request.prompt.push_back(TokenId(static_cast<std::int32_t>(
          random.Below(static_cast<std::uint64_t>(model_->config().vocab_size)))));
    }
  }
  const auto expected = rig(1).Run(longer, {.batch = 1, .chunk = 0, .threads = 1, .seed = 1});
  for (const RigPlan& plan : {RigPlan{1, 700, 2, 2}, RigPlan{2, 511, 2, 3}}) {
    EXPECT_TRUE(Same(*model_, expected, rig(2).Run(longer, plan))) << plan.ToString();
  }
  std::vector<RigRequest> again = longer;
  for (std::size_t i = 0; i < again.size(); ++i) {
    again[i].earlier.assign(expected[i].tokens.begin(), expected[i].tokens.begin() + 20);
  }
  const auto results = rig(2).Run(again, {.batch = 2, .chunk = 900, .threads = 2, .seed = 5});
  for (std::size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(FirstDifference(*model_, expected[i], results[i], 20), "") << "request " << i;
  }
}

TEST(SmolLm2SameBytesTest, EightRequestsThroughFourPlans) {
  const auto path = SmolLm2Path();
  if (!path) GTEST_SKIP() << "the SmolLM2 file is not in the model cache";
  for (ops::NumericsClass numerics : {*ops::ChooseClass("", DetectCpuFeatures())}) {
    const auto model = Load(*path, numerics);
    ASSERT_NE(model, nullptr);
    const auto requests = MakeRequests(8, model->config().vocab_size, 12);
    auto one = RigOf(*model, 1);
    const auto expected = one->Run(requests, {.batch = 1, .chunk = 0, .threads = 1, .seed = 1});
    auto two = RigOf(*model, 2);
    for (const RigPlan& plan : {RigPlan{8, 0, 2, 2}, RigPlan{3, 7, 2, 3}, RigPlan{2, 64, 1, 4}}) {
      EngineRig& rig = plan.threads == 1 ? *one : *two;
      EXPECT_TRUE(Same(*model, expected, rig.Run(requests, plan))) << plan.ToString();
    }
    std::vector<RigRequest> again = requests;
    for (std::size_t i = 0; i < again.size(); ++i) {
      again[i].earlier.assign(expected[i].tokens.begin(), expected[i].tokens.begin() + 5);
    }
    const auto results = two->Run(again, {.batch = 4, .chunk = 0, .threads = 2, .seed = 5});
    for (std::size_t i = 0; i < again.size(); ++i) {
      EXPECT_EQ(FirstDifference(*model, expected[i], results[i], 5), "") << "request " << i;
    }
  }
}
#endif

}  // namespace
}  // namespace tandem::testing
