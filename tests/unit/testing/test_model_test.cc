#include "tests/testing/test_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/formats/gguf.h"
#include "common/formats/json_file.h"
#include "common/formats/safetensors.h"
#include "tests/testing/llama2c.h"
#include "tests/testing/model_generator.h"
#include "tests/testing/paths.h"
#include "tests/testing/quantize.h"

namespace tandem::testing {
namespace {

using formats::DType;
using formats::GgufFile;
using formats::SafetensorsModel;
using formats::TensorView;
using ::testing::HasSubstr;

std::vector<float> Values(const TensorView& tensor) {
  return Dequantized(tensor.dtype, tensor.bytes);
}

// Both files hold the same weights: equal where GGUF keeps the order, row by row where it permutes.
void ExpectSameWeights(const TestModel& model) {
  TempDir dir;
  model.WriteGguf(dir.File("m.gguf"));
  model.WriteHfFolder(dir.path(), 2);
  auto gguf = GgufFile::Open(dir.File("m.gguf"));
  auto hf = SafetensorsModel::Open(dir.path());
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  ASSERT_TRUE(hf.ok()) << hf.status();
  EXPECT_EQ(hf->tensors().size(), model.tensors.size());
  const bool permuted = *gguf->metadata().GetString("general.architecture") == "llama";
  for (const TestTensor& tensor : model.tensors) {
    auto from_gguf = gguf->Get(tensor.gguf_name, tensor.shape);
    auto from_hf = hf->Get(tensor.hf_name, tensor.shape);
    ASSERT_TRUE(from_gguf.ok()) << from_gguf.status();
    ASSERT_TRUE(from_hf.ok()) << from_hf.status();
    std::vector<float> a = Values(*from_gguf);
    std::vector<float> b = Values(*from_hf);
    if (!permuted || tensor.rope_heads == 0) {
      ASSERT_EQ(a, b) << tensor.hf_name;
      continue;
    }
    const std::int64_t rows = tensor.shape[0];
    const auto width = static_cast<std::ptrdiff_t>(a.size()) / rows;
    for (std::int64_t row = 0; row < rows; ++row) {
      auto moved = a.begin() + GgufRopeRow(row, rows / tensor.rope_heads) * width;
      ASSERT_TRUE(std::equal(moved, moved + width, b.begin() + row * width)) << tensor.hf_name;
    }
  }
}

TEST(GgufRopeRow, InterleavesTheHalvesOfEachHead) {
  std::vector<std::int64_t> rows;
  for (int row = 0; row < 8; ++row) rows.push_back(GgufRopeRow(row, 4));
  EXPECT_THAT(rows, ::testing::ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
}

TEST(GenerateModel, GgufAndHfFolderHoldTheSameWeights) {
  for (Arch arch : {Arch::kLlama, Arch::kMistral, Arch::kQwen2, Arch::kQwen3}) {
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kQ4_1, DType::kQ8_0}) {
      GeneratorOptions options;
      options.dtype = dtype;
      ExpectSameWeights(GenerateModel(ModelSpec::Of(arch), options));
    }
  }
}

TEST(GenerateModel, SameSeedSameBytes) {
  GeneratorOptions other;
  other.seed = 2;
  std::string first = GenerateModel(ModelSpec()).ToGguf();
  EXPECT_EQ(first, GenerateModel(ModelSpec()).ToGguf());
  EXPECT_NE(first, GenerateModel(ModelSpec(), other).ToGguf());
}

TEST(GenerateModel, TakesADTypePerTensor) {
  GeneratorOptions options;
  options.dtype = DType::kQ4_0;
  options.dtype_of = {{"down_proj.weight", DType::kQ8_0}, {"embed_tokens.weight", DType::kF16}};
  TestModel model = GenerateModel(ModelSpec(), options);
  EXPECT_EQ(model.Find("model.layers.1.mlp.down_proj.weight")->dtype, DType::kQ8_0);
  EXPECT_EQ(model.Find("model.layers.1.mlp.up_proj.weight")->dtype, DType::kQ4_0);
  EXPECT_EQ(model.Find("model.embed_tokens.weight")->dtype, DType::kF16);
  EXPECT_EQ(model.Find("model.norm.weight")->dtype, DType::kF32);
}

TEST(GenerateModel, HasTheTensorsThatItsSpecNames) {
  ModelSpec spec = ModelSpec::Of(Arch::kLlama);
  spec.qkv_bias = spec.o_bias = spec.mlp_bias = true;
  spec.tied = false;
  spec.vocab = 500;
  TestModel model = GenerateModel(spec);
  EXPECT_NE(model.Find("model.layers.0.self_attn.o_proj.bias"), nullptr);
  EXPECT_NE(model.Find("model.layers.2.mlp.down_proj.bias"), nullptr);
  EXPECT_NE(model.Find("lm_head.weight"), nullptr);
  EXPECT_EQ(model.Find("model.layers.0.self_attn.q_norm.weight"), nullptr);
  EXPECT_EQ(model.Find("model.embed_tokens.weight")->shape[0], 500);
  EXPECT_EQ(model.tokenizer.tokens.size(), 500u);
  ExpectSameWeights(model);
}

TEST(GenerateModel, WritesEveryRopeScaling) {
  ModelSpec spec;
  spec.rope_scaling = RopeScaling::kLlama3;
  std::string text = GenerateModel(spec).ToGguf();
  auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  auto llama3 = GgufFile::FromBytes("m", bytes);
  ASSERT_TRUE(llama3.ok()) << llama3.status();
  auto factors = llama3->Get("rope_freqs.weight", {spec.head_dim / 2});
  ASSERT_TRUE(factors.ok()) << factors.status();
  EXPECT_EQ(Values(*factors).front(), 1.0f);             // fast pairs stay
  EXPECT_EQ(Values(*factors).back(), spec.rope_factor);  // slow pairs are stretched in full
  EXPECT_THAT(GenerateModel(spec).ConfigJson(), HasSubstr("\"rope_type\":\"llama3\""));

  spec.rope_scaling = RopeScaling::kYarn;
  std::string yarn_text = GenerateModel(spec).ToGguf();
  auto yarn =
      GgufFile::FromBytes("m", std::as_bytes(std::span(yarn_text.data(), yarn_text.size())));
  ASSERT_TRUE(yarn.ok()) << yarn.status();
  EXPECT_EQ(*yarn->metadata().GetString("llama.rope.scaling.type"), "yarn");
  EXPECT_EQ(*yarn->metadata().GetU64("llama.rope.scaling.original_context_length"), 128u);
}

TEST(MakeBpeTokenizer, EveryMergeJoinsTokens) {
  TestTokenizer tokenizer = MakeBpeTokenizer();
  std::set<std::string> tokens(tokenizer.tokens.begin(), tokenizer.tokens.end());
  EXPECT_EQ(tokens.size(), tokenizer.tokens.size());
  EXPECT_EQ(tokenizer.types.size(), tokenizer.tokens.size());
  EXPECT_GT(tokenizer.merges.size(), 50u);
  for (const std::string& merge : tokenizer.merges) {
    auto space = merge.find(' ');
    EXPECT_TRUE(tokens.contains(merge.substr(0, space)));
    EXPECT_TRUE(tokens.contains(merge.substr(space + 1)));
    EXPECT_TRUE(tokens.contains(merge.substr(0, space) + merge.substr(space + 1)));
  }
}

TEST(TestTokenizer, WritesTheSameVocabularyAsJson) {
  TestTokenizer tokenizer = MakeBpeTokenizer();
  tokenizer.PadTo(tokenizer.tokens.size() + 3);
  auto json = formats::ParseJson("tokenizer.json", tokenizer.TokenizerJson());
  ASSERT_TRUE(json.ok()) << json.status();
  const auto& model = json->as_object().at("model").as_object();
  const auto& vocab = model.at("vocab").as_object();
  EXPECT_EQ(vocab.size(), tokenizer.tokens.size() - 3);
  EXPECT_EQ(vocab.at(tokenizer.tokens[300]).as_int64(), 300);
  EXPECT_EQ(model.at("merges").as_array().size(), tokenizer.merges.size());
}

TEST(LoadLlama2c, ReadsStories260K) {
  auto model_path = SharedPath("models/stories260K.bin");
  auto tokenizer_path = SharedPath("models/tok512.bin");
  if (!model_path || !tokenizer_path) GTEST_SKIP() << "stories260K is not in the shared data";
  auto model = LoadLlama2c(*model_path, *tokenizer_path);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->spec.hidden, 64);
  EXPECT_EQ(model->spec.kv_heads, 4);
  EXPECT_TRUE(model->spec.tied);
  EXPECT_EQ(model->tensors.size(), 47u);
  EXPECT_EQ(model->tokenizer.tokens[265], "\u2581the");
  ExpectSameWeights(*model);

  auto q8 = LoadLlama2c(*model_path, *tokenizer_path, DType::kQ8_0);
  ASSERT_TRUE(q8.ok());
  EXPECT_EQ(q8->Find("model.layers.0.mlp.up_proj.weight")->dtype, DType::kQ8_0);
  EXPECT_EQ(q8->Find("model.layers.0.mlp.down_proj.weight")->dtype, DType::kF16);  // 172 inputs
}

// A model of llama2.c's layout, made here: what is read back is what was written.
TEST(LoadLlama2c, ReadsAGeneratedFile) {
  TempDir dir;
  const std::int32_t header[7] = {4, 6, 1, 2, 1, 259, 8};
  std::string text(reinterpret_cast<const char*>(header), sizeof(header));
  const std::size_t floats = 259 * 4 + 4 + 16 + 8 + 8 + 16 + 4 + 24 + 24 + 24 + 4 + 8 * 2;
  for (std::size_t i = 0; i < floats; ++i) text += Encoded(static_cast<float>(i));
  std::string tokens = Encoded(std::int32_t{6});
  for (int id = 0; id < 259; ++id) {
    std::string piece = id < 3 ? "x" : fmt::format("<0x{:02X}>", id - 3);
    tokens += Encoded(0.0f) + Encoded(static_cast<std::int32_t>(piece.size())) + piece;
  }
  WriteFile(dir.File("m.bin"), text);
  WriteFile(dir.File("tok.bin"), tokens);
  auto model = LoadLlama2c(dir.File("m.bin"), dir.File("tok.bin"));
  ASSERT_TRUE(model.ok()) << model.status();
  const float wq = 259 * 4 + 4;
  EXPECT_EQ(model->Find("model.layers.0.self_attn.q_proj.weight")->Values()[0], wq);
  EXPECT_EQ(model->Find("model.layers.0.self_attn.k_proj.weight")->Values()[0], wq + 16);
  // With a head of two rows, interleaved and halved orders agree.
  EXPECT_EQ(model->Find("model.layers.0.self_attn.q_proj.weight")->Values()[4], wq + 4);
  EXPECT_EQ(model->tokenizer.types[3], TokenType::kByte);
  ExpectSameWeights(*model);

  WriteFile(dir.File("m.bin"), text.substr(0, text.size() - 4));
  EXPECT_TRUE(
      absl::IsInvalidArgument(LoadLlama2c(dir.File("m.bin"), dir.File("tok.bin")).status()));
}

}  // namespace
}  // namespace tandem::testing
