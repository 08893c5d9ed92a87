#include "tests/testing/model_config.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "common/base/check.h"

namespace tandem::testing {
namespace {

namespace json = boost::json;

struct ArchNames {
  std::string_view gguf;
  const char* model_type;
  const char* hf_class;
};

ArchNames NamesOf(Arch arch) {
  switch (arch) {
    case Arch::kLlama:
      return {"llama", "llama", "LlamaForCausalLM"};
    case Arch::kMistral:
      return {"llama", "mistral", "MistralForCausalLM"};
    case Arch::kQwen2:
      return {"qwen2", "qwen2", "Qwen2ForCausalLM"};
    case Arch::kQwen3:
      return {"qwen3", "qwen3", "Qwen3ForCausalLM"};
  }
  TANDEM_CHECK(false && "no such arch");
  return {};
}

json::value ScalingJson(const ModelSpec& spec) {
  json::object out = {{"factor", spec.rope_factor}};
  switch (spec.rope_scaling) {
    case RopeScaling::kNone:
      return nullptr;
    case RopeScaling::kLinear:
      out["rope_type"] = "linear";
      return out;
    case RopeScaling::kLlama3:
      out["rope_type"] = "llama3";
      out["low_freq_factor"] = spec.rope_low_freq_factor;
      out["high_freq_factor"] = spec.rope_high_freq_factor;
      break;
    case RopeScaling::kYarn:
      out["rope_type"] = "yarn";
      break;
  }
  out["original_max_position_embeddings"] = spec.rope_original_context;
  return out;
}

// What differs between the architectures' files.
void AddArchFields(const ModelSpec& spec, json::object& out) {
  switch (spec.arch) {
    case Arch::kLlama:
      TANDEM_CHECK(spec.qkv_bias == spec.o_bias);  // one switch there
      out["attention_bias"] = spec.qkv_bias;
      out["mlp_bias"] = spec.mlp_bias;
      break;
    case Arch::kMistral:
      out["sliding_window"] = nullptr;
      if (spec.sliding_window > 0) out["sliding_window"] = spec.sliding_window;
      break;
    case Arch::kQwen3:
      out["attention_bias"] = spec.qkv_bias;
      [[fallthrough]];
    case Arch::kQwen2:
      out["use_sliding_window"] = spec.sliding_window > 0;
      out["sliding_window"] = spec.sliding_window > 0 ? spec.sliding_window : 4096;
      out["max_window_layers"] = spec.sliding_window > 0 ? 0 : spec.layers;
      break;
  }
}

}  // namespace

std::string_view GgufArch(Arch arch) { return NamesOf(arch).gguf; }

void AddModelMetadata(std::string_view name, const ModelSpec& spec, std::size_t vocab,
                      GgufWriter& writer) {
  std::string arch(GgufArch(spec.arch));
  auto set = [&](std::string_view key, int value) {
    writer.SetU32(fmt::format("{}.{}", arch, key), static_cast<std::uint32_t>(value));
  };
  writer.SetString("general.architecture", arch);
  writer.SetString("general.name", name);
  set("block_count", spec.layers);
  set("context_length", spec.context);
  set("embedding_length", spec.hidden);
  set("feed_forward_length", spec.ff);
  set("attention.head_count", spec.heads);
  set("attention.head_count_kv", spec.kv_heads);
  set("attention.key_length", spec.head_dim);
  set("attention.value_length", spec.head_dim);
  set("rope.dimension_count", spec.head_dim);
  set("vocab_size", static_cast<int>(vocab));
  writer.SetF32(arch + ".attention.layer_norm_rms_epsilon", spec.rms_eps);
  writer.SetF32(arch + ".rope.freq_base", spec.rope_theta);
  if (spec.sliding_window > 0) set("attention.sliding_window", spec.sliding_window);
  if (spec.rope_scaling == RopeScaling::kLinear || spec.rope_scaling == RopeScaling::kYarn) {
    bool yarn = spec.rope_scaling == RopeScaling::kYarn;
    writer.SetString(arch + ".rope.scaling.type", yarn ? "yarn" : "linear");
    writer.SetF32(arch + ".rope.scaling.factor", spec.rope_factor);
    if (yarn) set("rope.scaling.original_context_length", spec.rope_original_context);
  }
}

std::string HfConfigJson(const ModelSpec& spec, std::size_t vocab, std::int32_t bos,
                         std::int32_t eos) {
  ArchNames names = NamesOf(spec.arch);
  json::object out = {{"architectures", json::array{names.hf_class}},
                      {"model_type", names.model_type},
                      {"hidden_size", spec.hidden},
                      {"num_hidden_layers", spec.layers},
                      {"num_attention_heads", spec.heads},
                      {"num_key_value_heads", spec.kv_heads},
                      {"head_dim", spec.head_dim},
                      {"intermediate_size", spec.ff},
                      {"vocab_size", vocab},
                      {"max_position_embeddings", spec.context},
                      {"rms_norm_eps", spec.rms_eps},
                      {"rope_theta", spec.rope_theta},
                      {"rope_scaling", ScalingJson(spec)},
                      {"tie_word_embeddings", spec.tied},
                      {"hidden_act", "silu"},
                      {"bos_token_id", bos},
                      {"eos_token_id", eos},
                      {"torch_dtype", "float32"}};
  AddArchFields(spec, out);
  return json::serialize(out);
}

}  // namespace tandem::testing
