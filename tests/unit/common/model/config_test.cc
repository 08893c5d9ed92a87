#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "common/formats/json_file.h"
#include "common/model/config_hf.h"
#include "common/model/rope.h"

namespace tandem::model {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kSmolLm2 = R"("model_type": "llama", "hidden_size": 576,
  "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
  "intermediate_size": 1536, "vocab_size": 49152, "rms_norm_eps": 1e-5,
  "max_position_embeddings": 8192, "rope_theta": 100000, "tie_word_embeddings": true)";

// `more` comes first: boost::json keeps the last of equal keys, so kSmolLm2 parts are replaced by
// naming them after it.
StatusOr<ModelConfig> Read(std::string_view more, std::string_view generation = "null") {
  auto json = formats::ParseJson(
      "config.json", fmt::format("{{{}{}{}}}", kSmolLm2, more.empty() ? "" : ",", more));
  auto second = formats::ParseJson("generation_config.json", generation);
  EXPECT_TRUE(json.ok()) << json.status();
  EXPECT_TRUE(second.ok()) << second.status();
  return ConfigFromHf("config.json", *json, *second);
}

std::string MessageOf(const StatusOr<ModelConfig>& config) {
  return config.ok() ? "" : std::string(FromAbsl(config.status().message()));
}

TEST(ConfigFromHfTest, ReadsSmolLm2) {
  const auto config = Read(R"("eos_token_id": 2)", R"({"eos_token_id": [2, 0]})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, Architecture::kLlama);
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_TRUE(config->tied_head);
  EXPECT_FALSE(config->qkv_bias);
  EXPECT_THAT(config->eos_ids, ElementsAre(TokenId(0), TokenId(2)));
  EXPECT_THAT(config->windows, Each(0));
  EXPECT_EQ(config->windows.size(), 30u);
}

TEST(ConfigFromHfTest, FamiliesHaveTheirDefaults) {
  const auto qwen3 = Read(R"("model_type": "qwen3", "num_attention_heads": 6)");
  ASSERT_TRUE(qwen3.ok()) << qwen3.status();
  EXPECT_EQ(qwen3->head_dim, 128);
  EXPECT_TRUE(qwen3->qk_norm);
  EXPECT_FALSE(qwen3->qkv_bias);
  const auto qwen2 = Read(R"("model_type": "qwen2", "tie_word_embeddings": null)");
  ASSERT_TRUE(qwen2.ok()) << qwen2.status();
  EXPECT_TRUE(qwen2->qkv_bias);
  EXPECT_FALSE(qwen2->output_bias);
  EXPECT_FALSE(qwen2->tied_head);
  const auto mistral =
      Read(R"("model_type": "mistral", "num_attention_heads": 16, "num_key_value_heads": null)");
  ASSERT_TRUE(mistral.ok()) << mistral.status();
  EXPECT_EQ(mistral->num_kv_heads, 8);
  const auto biased = Read(R"("attention_bias": true, "mlp_bias": true, "head_dim": 32)");
  ASSERT_TRUE(biased.ok()) << biased.status();
  EXPECT_TRUE(biased->qkv_bias && biased->output_bias && biased->mlp_bias);
  EXPECT_EQ(biased->head_dim, 32);
}

TEST(ConfigFromHfTest, WindowsAsEachFamilyMeansThem) {
  EXPECT_THAT(Read(R"("model_type": "mistral", "sliding_window": 4096)")->windows, Each(4096));
  EXPECT_THAT(Read(R"("model_type": "mistral", "sliding_window": null)")->windows, Each(0));
  EXPECT_THAT(Read(R"("model_type": "qwen2", "sliding_window": 64)")->windows, Each(0));
  const auto qwen2 = Read(R"("model_type": "qwen2", "sliding_window": 64, "num_hidden_layers": 3,
                             "use_sliding_window": true, "max_window_layers": 2)");
  EXPECT_THAT(qwen2->windows, ElementsAre(0, 0, 64));
  const auto typed = Read(R"("model_type": "qwen3", "sliding_window": 64, "num_hidden_layers": 2,
      "use_sliding_window": true, "layer_types": ["sliding_attention", "full_attention"])");
  EXPECT_THAT(typed->windows, ElementsAre(64, 0));
}

TEST(ConfigFromHfTest, RopeScalingInOldAndNewForm) {
  const auto old_form = Read(R"("rope_scaling": {"type": "linear", "factor": 2.0})");
  EXPECT_EQ(old_form->rope_scaling.type, RopeScalingType::kLinear);
  const auto yarn =
      Read(R"("max_position_embeddings": 32768, "rope_parameters": {"rope_type": "yarn",
      "factor": 4.0, "original_max_position_embeddings": 32768, "rope_theta": 1000000.0})");
  ASSERT_TRUE(yarn.ok()) << yarn.status();
  EXPECT_EQ(yarn->rope_theta, 1000000.0);
  EXPECT_EQ(yarn->context_length, 131072);
  EXPECT_NEAR(FrequenciesOf(*yarn).scale, 0.1 * std::log(4.0) + 1, 1e-12);
  const auto llama3 = Read(R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64})");
  ASSERT_TRUE(llama3.ok()) << llama3.status();
  ASSERT_EQ(llama3->rope_divisors.size(), 32u);
  EXPECT_EQ(llama3->rope_divisors.front(), 1.0f);
  EXPECT_EQ(llama3->rope_divisors.back(), 8.0f);
}

TEST(ConfigFromHfTest, AnUnknownArchitectureListsTheKnownOnes) {
  const auto config = Read(R"("model_type": "mamba")");
  EXPECT_EQ(config.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(MessageOf(config), HasSubstr("llama, mistral, qwen2, qwen3"));
}

TEST(ConfigFromHfTest, RefusesWhatItCannotCompute) {
  for (std::string_view more :
       {R"("hidden_act": "gelu")", R"("quantization_config": {"bits": 4})",
        R"("partial_rotary_factor": 0.5)", R"("rope_scaling": {"rope_type": "longrope"})"}) {
    EXPECT_EQ(Read(more).status().code(), absl::StatusCode::kUnimplemented) << more;
  }
}

TEST(ConfigFromHfTest, RefusesAbsurdNumbers) {
  for (std::string_view more :
       {R"("hidden_size": 0)", R"("num_hidden_layers": 2000000000)", R"("num_hidden_layers": -3)",
        R"("vocab_size": 1e300)", R"("num_key_value_heads": 4)", R"("head_dim": 7)",
        R"("head_dim": 100000)", R"("rms_norm_eps": 0)", R"("rope_theta": -1)",
        R"("hidden_size": "big")", R"("num_attention_heads": 0)", R"("eos_token_id": 49152)",
        R"("eos_token_id": "x")", R"("rope_scaling": 3)",
        R"("rope_scaling": {"type": "yarn", "factor": -2})",
        R"("max_position_embeddings": 2147483647)", R"("tie_word_embeddings": 1)",
        R"("rope_scaling": {"type": "llama3", "factor": 8})"}) {
    const auto config = Read(more);
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << more;
    EXPECT_THAT(MessageOf(config), HasSubstr("config.json")) << more;
  }
}

TEST(FrequenciesTest, YarnKeepsFastWavesAndStretchesSlowOnes) {
  ModelConfig config;
  config.head_dim = 64;
  config.rope_theta = 10000;
  config.rope_scaling = {.type = RopeScalingType::kYarn,
                         .factor = 4,
                         .original_context = 2048,
                         .attention_factor = 1.25};
  const RopeFrequencies scaled = FrequenciesOf(config);
  config.rope_scaling = {};
  const RopeFrequencies plain = FrequenciesOf(config);
  EXPECT_EQ(scaled.radians_per_token.front(), plain.radians_per_token.front());
  EXPECT_DOUBLE_EQ(scaled.radians_per_token.back() * 4, plain.radians_per_token.back());
  EXPECT_EQ(scaled.scale, 1.25);
  EXPECT_EQ(plain.scale, 1.0);
}

}  // namespace
}  // namespace tandem::model
