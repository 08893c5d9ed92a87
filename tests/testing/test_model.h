// A whole small model in memory, written as GGUF and as a Hugging Face folder with the same
// weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/formats/tensor_source.h"
#include "tests/testing/test_tokenizer.h"

namespace tandem::testing {

enum class Arch { kLlama, kMistral, kQwen2, kQwen3 };
enum class RopeScaling { kNone, kLinear, kLlama3, kYarn };

// What config.json and GGUF metadata say. The defaults are awkward on purpose: inner sizes that are
// no multiples of 64, groups of three query heads.
struct ModelSpec {
  Arch arch = Arch::kLlama;
  int hidden = 96;
  int layers = 3;
  int heads = 6;
  int kv_heads = 2;
  int head_dim = 16;
  int ff = 160;
  int vocab = 0;  // 0: the tokenizer's size; more: the rest is padding
  int context = 512;
  float rms_eps = 1e-5f;
  float rope_theta = 10000.0f;
  RopeScaling rope_scaling = RopeScaling::kNone;
  float rope_factor = 4.0f;
  int rope_original_context = 128;
  float rope_low_freq_factor = 1.0f;   // llama3
  float rope_high_freq_factor = 4.0f;  // llama3
  int sliding_window = 0;              // 0: none; else in all layers
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;
  bool tied = true;

  // The default with what `arch` brings: Qwen2 biases, Qwen3 QK norm, Mistral no tied head.
  static ModelSpec Of(Arch arch);
};

// One weight, rows in Hugging Face's order, in the type that GGUF will store.
struct TestTensor {
  std::string hf_name;
  std::string gguf_name;
  formats::TensorShape shape;
  formats::DType dtype;
  std::vector<std::byte> bytes;
  int rope_heads = 0;  // q and k rows: the number of heads that GGUF's llama layout permutes in

  std::vector<float> Values() const;
};

struct TestModel {
  std::string name = "tandem-test";
  ModelSpec spec;
  TestTokenizer tokenizer;
  std::vector<TestTensor> tensors;

  // Null when there is none.
  const TestTensor* Find(std::string_view hf_name) const;

  // The whole file. llama and mistral both become arch "llama" with permuted q and k.
  std::string ToGguf() const;
  void WriteGguf(const std::string& path) const;

  // model.safetensors (or shards), config.json, generation_config.json, tokenizer.json and
  // tokenizer_config.json. Quantised tensors are written as the F32 values they stand for.
  void WriteHfFolder(const std::string& folder, int num_shards = 1) const;
  std::string ConfigJson() const;
};

// The row of GGUF's llama layout where Hugging Face's row `row` of a q or k matrix goes: within a
// head, pair i of half h moves from h · head_dim/2 + i to 2i + h.
std::int64_t GgufRopeRow(std::int64_t row, std::int64_t head_dim);

// Divisors of the llama3 rule for each pair, as GGUF stores them in rope_freqs.weight.
std::vector<float> Llama3RopeFactors(const ModelSpec& spec);

}  // namespace tandem::testing
