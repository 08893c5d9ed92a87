// One model, whichever file it comes in.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "common/base/cpu_features.h"
#include "common/model/model.h"
#include "common/model/weights.h"
#include "common/ops/numerics_class.h"
#include "tests/integration/engine/rig.h"
#include "tests/integration/engine/small_models.h"
#include "tests/testing/paths.h"

namespace tandem::testing {
namespace {

bool SameBytes(const ops::PackedMatrix& a, const ops::PackedMatrix& b) {
  return a.bytes() == b.bytes() && a.view().layout == b.view().layout &&
         std::memcmp(a.view().data, b.view().data, static_cast<std::size_t>(a.bytes())) == 0;
}

void ExpectSameWeights(const model::Weights& a, const model::Weights& b) {
  EXPECT_TRUE(SameBytes(a.head, b.head));
  EXPECT_EQ(a.final_norm, b.final_norm);
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    const model::LayerWeights& x = a.layers[i];
    const model::LayerWeights& y = b.layers[i];
    EXPECT_TRUE(SameBytes(x.q, y.q) && SameBytes(x.k, y.k) && SameBytes(x.v, y.v)) << i;
    EXPECT_TRUE(SameBytes(x.o, y.o) && SameBytes(x.gate, y.gate) && SameBytes(x.up, y.up)) << i;
    EXPECT_TRUE(SameBytes(x.down, y.down)) << i;
    EXPECT_EQ(x.q_bias, y.q_bias);
    EXPECT_EQ(x.k_bias, y.k_bias);
    EXPECT_EQ(x.q_norm, y.q_norm);
    EXPECT_EQ(x.attention_norm, y.attention_norm);
  }
}

TEST(ModelFormatsTest, GgufAndSafetensorsOfTheSameWeightsAreTheSameBytes) {
  int compared = 0;
  for (const SmallModel& small : SmallModels()) {
    const bool quantized = small.name == "quants" || small.name == "k quants";
    if (quantized) continue;  // safetensors has floats only
    SCOPED_TRACE(small.name);
    TempDir folder;
    small.model.WriteGguf(folder.File("model.gguf"));
    small.model.WriteHfFolder(folder.path(), 2);
    for (ops::NumericsClass numerics : ops::SupportedClasses(DetectCpuFeatures())) {
      const model::Model::LoadOptions options{
          .numerics = std::string(ops::Name(numerics)), .threads = 2, .progress = nullptr};
      auto gguf = model::Model::Load(folder.File("model.gguf"), options);
      auto folded = model::Model::Load(folder.path(), options);
      ASSERT_TRUE(gguf.ok()) << gguf.status();
      ASSERT_TRUE(folded.ok()) << folded.status();
      ExpectSameWeights((*gguf)->weights(), (*folded)->weights());
      RigRequest request;
      for (int i = 0; i < 40; ++i) request.prompt.push_back(TokenId(i * 7 % 250));
      request.params = {.temperature = 0.8f, .seed = 5, .max_tokens = TokenCount(5)};
      EngineRig first(**gguf, {});
      EngineRig second(**folded, {});
      const auto expected = first.Run({request}, {});
      const auto actual = second.Run({request}, {});
      EXPECT_EQ(FirstDifference(**gguf, expected[0], actual[0], 0), "");
    }
    ++compared;
  }
  EXPECT_EQ(compared, 7);
}

TEST(ModelFormatsTest, SharedWeightsGiveTheSameBytesAsPrivateOnes) {
  int compared = 0;
  for (const SmallModel& small : SmallModels()) {
    SCOPED_TRACE(small.name);
    TempDir folder;
    small.model.WriteGguf(folder.File("model.gguf"));
    for (ops::NumericsClass numerics : ops::SupportedClasses(DetectCpuFeatures())) {
      model::Model::LoadOptions options{.numerics = std::string(ops::Name(numerics)), .threads = 2};
      const auto own = model::Model::Load(folder.File("model.gguf"), options);
      options.weight_cache = {.folder = folder.File("cache"), .min_bytes = ByteCount(0)};
      ASSERT_TRUE(own.ok()) << own.status();
      ASSERT_TRUE(model::Model::Load(folder.File("model.gguf"), options).ok());
      const auto shared = model::Model::Load(folder.File("model.gguf"), options);
      ASSERT_TRUE(shared.ok()) << shared.status();
      EXPECT_FALSE((*own)->weights_home().shared);
      EXPECT_TRUE((*shared)->weights_home().shared) << (*shared)->weights_home().why_not;
      EXPECT_FALSE((*shared)->weights_home().packed);
      ExpectSameWeights((*own)->weights(), (*shared)->weights());
      RigRequest request;
      for (int i = 0; i < 40; ++i) request.prompt.push_back(TokenId(i * 7 % 250));
      request.params = {.temperature = 0.8f, .seed = 5, .max_tokens = TokenCount(5)};
      EngineRig first(**own, {});
      EngineRig second(**shared, {});
      const auto expected = first.Run({request}, {});
      const auto actual = second.Run({request}, {});
      EXPECT_EQ(FirstDifference(**own, expected[0], actual[0], 0), "");
      ++compared;
    }
  }
  EXPECT_GE(compared, 9);
}

TEST(ModelFormatsTest, TheInstanceHashNamesWeightsAndTokenizer) {
  TempDir folder;
  const auto small = SmallModels();
  small[0].model.WriteGguf(folder.File("a.gguf"));
  TestModel changed = small[0].model;
  changed.tensors.back().bytes[0] ^= std::byte{1};
  changed.WriteGguf(folder.File("b.gguf"));
  const Hash128 tokenizer{};
  Hash128 other{};
  other.bytes[3] = 1;
  auto load = [&](const char* name, const char* numerics) {
    return *model::Model::Load(folder.File(name),
                               {.numerics = numerics, .threads = 1, .progress = nullptr});
  };
  const auto a = load("a.gguf", "auto");
  EXPECT_EQ(a->InstanceHash(tokenizer), load("a.gguf", "scalar-f32")->InstanceHash(tokenizer));
  EXPECT_NE(a->InstanceHash(tokenizer), a->InstanceHash(other));
  EXPECT_NE(a->InstanceHash(tokenizer), load("b.gguf", "auto")->InstanceHash(tokenizer));
}

}  // namespace
}  // namespace tandem::testing
