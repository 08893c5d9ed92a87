#include "tests/testing/test_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/base/check.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/model_config.h"
#include "tests/testing/paths.h"
#include "tests/testing/quantize.h"
#include "tests/testing/safetensors_writer.h"

namespace tandem::testing {
namespace {

using formats::DType;

// Moves whole rows, so that quantised ones stay as they are.
std::vector<std::byte> PermuteRows(const TestTensor& tensor) {
  const std::int64_t rows = tensor.shape[0];
  const std::int64_t head_dim = rows / tensor.rope_heads;
  const std::size_t row_bytes = tensor.bytes.size() / static_cast<std::size_t>(rows);
  std::vector<std::byte> out(tensor.bytes.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    auto from = tensor.bytes.begin() + static_cast<std::ptrdiff_t>(row * row_bytes);
    auto to = static_cast<std::ptrdiff_t>(GgufRopeRow(row, head_dim) * row_bytes);
    std::copy_n(from, row_bytes, out.begin() + to);
  }
  return out;
}

bool IsFloat(DType dtype) { return formats::Info(dtype).block_elems == 1; }

}  // namespace

ModelSpec ModelSpec::Of(Arch arch) {
  ModelSpec spec;
  spec.arch = arch;
  spec.tied = arch != Arch::kMistral;
  spec.qkv_bias = arch == Arch::kQwen2;
  spec.qk_norm = arch == Arch::kQwen3;
  if (arch == Arch::kQwen3) spec.head_dim = 32;  // wider than hidden / heads, as in Qwen3-0.6B
  return spec;
}

std::vector<float> TestTensor::Values() const { return Dequantized(dtype, bytes); }

std::int64_t GgufRopeRow(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t in_head = row % head_dim;
  const std::int64_t half = in_head / (head_dim / 2);
  const std::int64_t pair = in_head % (head_dim / 2);
  return row - in_head + 2 * pair + half;
}

// transformers, modeling_rope_utils.py, _compute_llama3_parameters.
std::vector<float> Llama3RopeFactors(const ModelSpec& spec) {
  const double original = spec.rope_original_context;
  const double low = spec.rope_low_freq_factor;
  const double high = spec.rope_high_freq_factor;
  std::vector<float> factors;
  for (int i = 0; i < spec.head_dim / 2; ++i) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(double{spec.rope_theta}, 2.0 * i / spec.head_dim);
    double factor = 1.0;
    if (wavelength > original / low) {
      factor = spec.rope_factor;
    } else if (wavelength > original / high) {
      const double smooth = (original / wavelength - low) / (high - low);
      factor = 1.0 / ((1.0 - smooth) / spec.rope_factor + smooth);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

const TestTensor* TestModel::Find(std::string_view hf_name) const {
  for (const TestTensor& tensor : tensors) {
    if (tensor.hf_name == hf_name) return &tensor;
  }
  return nullptr;
}

std::string TestModel::ToGguf() const {
  GgufWriter writer;
  AddModelMetadata(name, spec, tokenizer.tokens.size(), writer);
  tokenizer.AddTo(writer);
  const bool permuted = GgufArch(spec.arch) == "llama";
  for (const TestTensor& tensor : tensors) {
    if (permuted && tensor.rope_heads > 0) {
      writer.AddTensor(tensor.gguf_name, tensor.dtype, tensor.shape, PermuteRows(tensor));
    } else {
      writer.AddTensor(tensor.gguf_name, tensor.dtype, tensor.shape, tensor.bytes);
    }
  }
  if (spec.rope_scaling == RopeScaling::kLlama3) {
    std::vector<float> factors = Llama3RopeFactors(spec);
    writer.AddTensor("rope_freqs.weight", DType::kF32, {spec.head_dim / 2},
                     std::as_bytes(std::span(factors)));
  }
  return writer.Finish();
}

void TestModel::WriteGguf(const std::string& path) const { WriteFile(path, ToGguf()); }

void TestModel::WriteHfFolder(const std::string& folder, int num_shards) const {
  SafetensorsWriter writer;
  for (const TestTensor& tensor : tensors) {
    if (IsFloat(tensor.dtype)) {
      writer.AddTensor(tensor.hf_name, tensor.dtype, tensor.shape, tensor.bytes);
    } else {
      std::vector<float> values = tensor.Values();
      writer.AddTensor(tensor.hf_name, DType::kF32, tensor.shape, std::as_bytes(std::span(values)));
    }
  }
  writer.WriteFolder(folder, num_shards);
  WriteFile(folder + "/config.json", ConfigJson());
  WriteFile(
      folder + "/generation_config.json",
      fmt::format(R"({{"bos_token_id":{},"eos_token_id":{}}})", tokenizer.bos, tokenizer.eos));
  WriteFile(folder + "/tokenizer.json", tokenizer.TokenizerJson());
  WriteFile(folder + "/tokenizer_config.json", tokenizer.ConfigJson());
}

std::string TestModel::ConfigJson() const {
  return HfConfigJson(spec, tokenizer.tokens.size(), tokenizer.bos, tokenizer.eos);
}

}  // namespace tandem::testing
