#include "tests/testing/model_generator.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "tests/testing/quantize.h"

namespace tandem::testing {
namespace {

using formats::DType;
using formats::TensorShape;

// Adds tensors one by one; the random numbers follow the order of the calls.
class Builder {
 public:
  Builder(TestModel& model, const GeneratorOptions& options)
      : model_(model), options_(options), random_(options.seed) {}

  // Uniform with variance gain²/in, so that a product of unit inputs has deviation `gain`.
  void Matrix(const std::string& hf, const std::string& gguf, int out, int in, float gain,
              int rope_heads = 0) {
    const float bound = gain * std::sqrt(3.0f / static_cast<float>(in));
    std::vector<float> values = Uniform(static_cast<std::size_t>(out) * in, -bound, bound);
    Add(hf, gguf, {out, in}, DTypeForRows(DTypeOf(hf), in), values, rope_heads);
  }
  void Norm(const std::string& hf, const std::string& gguf, int size) {
    Add(hf, gguf, {size}, DType::kF32, Uniform(size, 0.7f, 1.3f), 0);
  }
  void Bias(const std::string& hf, const std::string& gguf, int size, int rope_heads = 0) {
    Add(hf, gguf, {size}, DType::kF32, Uniform(size, -0.2f, 0.2f), rope_heads);
  }

 private:
  std::vector<float> Uniform(std::size_t count, float low, float high) {
    std::vector<float> out(count);
    for (float& x : out) x = low + (high - low) * static_cast<float>(random_.Unit());
    return out;
  }
  DType DTypeOf(const std::string& hf) const {
    for (const auto& [ending, dtype] : options_.dtype_of) {
      if (hf.ends_with(ending)) return dtype;
    }
    return options_.dtype;
  }
  void Add(const std::string& hf, const std::string& gguf, TensorShape shape, DType dtype,
           const std::vector<float>& values, int rope_heads) {
    model_.tensors.push_back(
        {hf, gguf, std::move(shape), dtype, Quantize(dtype, values), rope_heads});
  }

  TestModel& model_;
  const GeneratorOptions& options_;
  SplitMix64 random_;
};

void AddAttention(const ModelSpec& spec, const std::string& hf, const std::string& gguf,
                  Builder& build) {
  const int q = spec.heads * spec.head_dim;
  const int kv = spec.kv_heads * spec.head_dim;
  build.Norm(hf + "input_layernorm.weight", gguf + "attn_norm.weight", spec.hidden);
  // Sharp enough attention that what lies far back matters to the next token.
  build.Matrix(hf + "self_attn.q_proj.weight", gguf + "attn_q.weight", q, spec.hidden, 1.5f,
               spec.heads);
  build.Matrix(hf + "self_attn.k_proj.weight", gguf + "attn_k.weight", kv, spec.hidden, 1.5f,
               spec.kv_heads);
  build.Matrix(hf + "self_attn.v_proj.weight", gguf + "attn_v.weight", kv, spec.hidden, 1.0f);
  build.Matrix(hf + "self_attn.o_proj.weight", gguf + "attn_output.weight", spec.hidden, q, 1.0f);
  if (spec.qkv_bias) {
    build.Bias(hf + "self_attn.q_proj.bias", gguf + "attn_q.bias", q, spec.heads);
    build.Bias(hf + "self_attn.k_proj.bias", gguf + "attn_k.bias", kv, spec.kv_heads);
    build.Bias(hf + "self_attn.v_proj.bias", gguf + "attn_v.bias", kv);
  }
  if (spec.o_bias) build.Bias(hf + "self_attn.o_proj.bias", gguf + "attn_output.bias", spec.hidden);
  if (spec.qk_norm) {
    build.Norm(hf + "self_attn.q_norm.weight", gguf + "attn_q_norm.weight", spec.head_dim);
    build.Norm(hf + "self_attn.k_norm.weight", gguf + "attn_k_norm.weight", spec.head_dim);
  }
}

void AddMlp(const ModelSpec& spec, const std::string& hf, const std::string& gguf, Builder& build) {
  build.Norm(hf + "post_attention_layernorm.weight", gguf + "ffn_norm.weight", spec.hidden);
  build.Matrix(hf + "mlp.gate_proj.weight", gguf + "ffn_gate.weight", spec.ff, spec.hidden, 1.0f);
  build.Matrix(hf + "mlp.up_proj.weight", gguf + "ffn_up.weight", spec.ff, spec.hidden, 1.0f);
  build.Matrix(hf + "mlp.down_proj.weight", gguf + "ffn_down.weight", spec.hidden, spec.ff, 1.0f);
  if (spec.mlp_bias) {
    build.Bias(hf + "mlp.gate_proj.bias", gguf + "ffn_gate.bias", spec.ff);
    build.Bias(hf + "mlp.up_proj.bias", gguf + "ffn_up.bias", spec.ff);
    build.Bias(hf + "mlp.down_proj.bias", gguf + "ffn_down.bias", spec.hidden);
  }
}

}  // namespace

TestModel GenerateModel(const ModelSpec& spec, const GeneratorOptions& options) {
  TestModel model;
  model.name = fmt::format("tandem-test-{}", options.seed);
  model.spec = spec;
  model.tokenizer = MakeBpeTokenizer();
  if (options.chat_template) model.tokenizer.chat_template = ChatMlTemplate();
  model.tokenizer.PadTo(static_cast<std::size_t>(spec.vocab));
  const int vocab = static_cast<int>(model.tokenizer.tokens.size());
  model.spec.vocab = vocab;

  Builder build(model, options);
  build.Matrix("model.embed_tokens.weight", "token_embd.weight", vocab, spec.hidden, 1.0f);
  for (int layer = 0; layer < spec.layers; ++layer) {
    std::string hf = fmt::format("model.layers.{}.", layer);
    std::string gguf = fmt::format("blk.{}.", layer);
    AddAttention(spec, hf, gguf, build);
    AddMlp(spec, hf, gguf, build);
  }
  build.Norm("model.norm.weight", "output_norm.weight", spec.hidden);
  if (!spec.tied) build.Matrix("lm_head.weight", "output.weight", vocab, spec.hidden, 1.0f);
  return model;
}

}  // namespace tandem::testing
