#include "deploy/serve/model_id.h"

#include <gtest/gtest.h>

namespace tandem::deploy {
namespace {

TEST(ServedModelId, DropsExtensionAndWeightType) {
  EXPECT_EQ(ServedModelId("/m/SmolLM2-135M-Instruct.Q4_1.gguf"), "SmolLM2-135M-Instruct");
  EXPECT_EQ(ServedModelId("qwen2.5-0.5b-instruct-q4_k_m.gguf"), "qwen2.5-0.5b-instruct");
  EXPECT_EQ(ServedModelId("Llama-3.2-1B-F16.gguf"), "Llama-3.2-1B");
  EXPECT_EQ(ServedModelId("model-IQ4_NL.GGUF"), "model");
}

TEST(ServedModelId, DropsAShardNumber) {
  EXPECT_EQ(ServedModelId("Big-Q8_0-00001-of-00003.gguf"), "Big");
}

TEST(ServedModelId, KeepsNamesThatOnlyLookAlike) {
  EXPECT_EQ(ServedModelId("Qwen3-0.6B.gguf"), "Qwen3-0.6B");
  EXPECT_EQ(ServedModelId("model-Q.gguf"), "model-Q");
  EXPECT_EQ(ServedModelId(".gguf"), ".gguf");
}

TEST(ServedModelId, TakesAFoldersName) {
  EXPECT_EQ(ServedModelId("/models/Qwen2.5-0.5B-Instruct/"), "Qwen2.5-0.5B-Instruct");
}

}  // namespace
}  // namespace tandem::deploy
