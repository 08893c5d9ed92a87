#include "tests/testing/llama2c.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/formats/byte_cursor.h"
#include "common/formats/mapped_file.h"
#include "tests/testing/quantize.h"

namespace tandem::testing {
namespace {

using formats::DType;

// llama2.c, run.c: struct Config.
struct Config {
  std::int32_t dim, hidden_dim, layers, heads, kv_heads, vocab, context;
};

// Takes runs of f32 from the file; a short file shows once, at the end.
class Weights {
 public:
  explicit Weights(formats::ByteCursor& cursor) : cursor_(cursor) {}

  std::vector<float> Take(std::int64_t count) {
    std::vector<float> out(static_cast<std::size_t>(count));
    auto raw = cursor_.Take(out.size() * sizeof(float));
    if (raw) {
      std::memcpy(out.data(), raw->data(), raw->size());
    } else {
      complete_ = false;
    }
    return out;
  }
  bool complete() const { return complete_; }

 private:
  formats::ByteCursor& cursor_;
  bool complete_ = true;
};

struct Kind {
  const char* hf;
  const char* gguf;
  int rows;  // 0: a norm of `cols`
  int cols;
  int rope_heads = 0;
};

// llama2.c's interleaved rows in the order of Hugging Face.
std::vector<float> UnpermuteRows(const std::vector<float>& values, const Kind& kind) {
  if (kind.rope_heads == 0) return values;
  const std::int64_t head_dim = kind.rows / kind.rope_heads;
  std::vector<float> out(values.size());
  for (std::int64_t row = 0; row < kind.rows; ++row) {
    auto from = values.begin() + GgufRopeRow(row, head_dim) * kind.cols;
    std::copy_n(from, kind.cols, out.begin() + row * kind.cols);
  }
  return out;
}

void AddTensor(TestModel& model, std::string hf, std::string gguf, const Kind& kind, DType dtype,
               const std::vector<float>& values) {
  formats::TensorShape shape = {kind.cols};
  if (kind.rows > 0) shape = {kind.rows, kind.cols};
  DType stored = kind.rows > 0 ? DTypeForRows(dtype, kind.cols) : DType::kF32;
  model.tensors.push_back({std::move(hf), std::move(gguf), std::move(shape), stored,
                           Quantize(stored, UnpermuteRows(values, kind)), kind.rope_heads});
}

ModelSpec SpecOf(const Config& config) {
  ModelSpec spec;
  spec.hidden = config.dim;
  spec.layers = config.layers;
  spec.heads = config.heads;
  spec.kv_heads = config.kv_heads;
  spec.head_dim = config.dim / config.heads;
  spec.ff = config.hidden_dim;
  spec.vocab = std::abs(config.vocab);
  spec.context = config.context;
  spec.tied = config.vocab > 0;
  return spec;
}

// The order of memory_map_weights in run.c: each kind for all layers together.
void AddWeights(const ModelSpec& spec, DType dtype, Weights& weights, TestModel& model) {
  const int kv = spec.kv_heads * spec.head_dim;
  const std::array<Kind, 9> kinds = {{
      {"input_layernorm", "attn_norm", 0, spec.hidden},
      {"self_attn.q_proj", "attn_q", spec.hidden, spec.hidden, spec.heads},
      {"self_attn.k_proj", "attn_k", kv, spec.hidden, spec.kv_heads},
      {"self_attn.v_proj", "attn_v", kv, spec.hidden},
      {"self_attn.o_proj", "attn_output", spec.hidden, spec.hidden},
      {"post_attention_layernorm", "ffn_norm", 0, spec.hidden},
      {"mlp.gate_proj", "ffn_gate", spec.ff, spec.hidden},
      {"mlp.down_proj", "ffn_down", spec.hidden, spec.ff},
      {"mlp.up_proj", "ffn_up", spec.ff, spec.hidden},
  }};
  const Kind table = {"", "", spec.vocab, spec.hidden};
  const Kind norm = {"", "", 0, spec.hidden};
  AddTensor(model, "model.embed_tokens.weight", "token_embd.weight", table, dtype,
            weights.Take(std::int64_t{spec.vocab} * spec.hidden));
  for (const Kind& kind : kinds) {
    for (int layer = 0; layer < spec.layers; ++layer) {
      AddTensor(model, fmt::format("model.layers.{}.{}.weight", layer, kind.hf),
                fmt::format("blk.{}.{}.weight", layer, kind.gguf), kind, dtype,
                weights.Take(std::int64_t{std::max(kind.rows, 1)} * kind.cols));
    }
  }
  AddTensor(model, "model.norm.weight", "output_norm.weight", norm, dtype,
            weights.Take(spec.hidden));
  weights.Take(std::int64_t{spec.context} * spec.head_dim);  // tables of cosines and sines
  if (!spec.tied) {
    AddTensor(model, "lm_head.weight", "output.weight", table, dtype,
              weights.Take(std::int64_t{spec.vocab} * spec.hidden));
  }
}

}  // namespace

StatusOr<TestModel> LoadLlama2c(const std::string& model_path, const std::string& tokenizer_path,
                                DType dtype) {
  TANDEM_ASSIGN_OR_RETURN(auto file, formats::MappedFile::Open(model_path));
  TANDEM_ASSIGN_OR_RETURN(auto tokenizer, formats::MappedFile::Open(tokenizer_path));
  formats::ByteCursor cursor(file.bytes());
  auto head = cursor.Take(sizeof(Config));
  if (!head) return InvalidArgument("{}: shorter than llama2.c's header", model_path);
  Config config;
  std::memcpy(&config, head->data(), sizeof(config));
  if (config.dim <= 0 || config.dim > 1 << 14 || config.heads <= 0 ||
      config.dim % config.heads != 0 || config.layers <= 0 || config.layers > 256 ||
      config.vocab == 0) {
    return InvalidArgument("{}: not a llama2.c model of version 0", model_path);
  }
  TestModel model;
  model.name = "llama2c";
  model.spec = SpecOf(config);
  Weights weights(cursor);
  AddWeights(model.spec, dtype, weights, model);
  if (!weights.complete() || cursor.remaining() != 0) {
    return InvalidArgument("{}: its size does not fit its header", model_path);
  }
  auto bytes = tokenizer.bytes();
  model.tokenizer = ReadLlama2cTokenizer(
      {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, model.spec.vocab);
  return model;
}

}  // namespace tandem::testing
