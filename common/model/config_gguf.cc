#include "common/model/config_gguf.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "common/formats/dequantize.h"
#include "common/model/architecture.h"

namespace tandem::model {
namespace {

// Mistral's files call themselves llama.
constexpr std::array kKnown = {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3};

// Reads "{architecture}.SUFFIX" keys; the first error stays and later reads answer fallbacks.
class Reader {
 public:
  Reader(const formats::GgufMetadata& metadata, std::string_view architecture)
      : metadata_(metadata), prefix_(fmt::format("{}.", architecture)) {}

  bool Has(std::string_view suffix) const { return metadata_.Has(Key(suffix)); }

  std::int32_t Int(std::string_view suffix) {
    return Narrow(suffix, metadata_.GetU64(Key(suffix)));
  }
  std::int32_t IntOr(std::string_view suffix, std::int32_t fallback) {
    return Has(suffix) ? Int(suffix) : fallback;
  }
  double FloatOr(std::string_view suffix, double fallback) {
    auto value = metadata_.GetF64Or(Key(suffix), fallback);
    if (!value.ok()) return Fail(value.status()), fallback;
    return *value;
  }
  std::string StringOr(std::string_view suffix, std::string_view fallback) {
    auto value = metadata_.GetStringOr(Key(suffix), fallback);
    if (!value.ok()) return Fail(value.status()), std::string(fallback);
    return std::string(*value);
  }
  // Whether `suffix` is there with another value than `only`.
  bool Differs(std::string_view suffix, double only) {
    return Has(suffix) && FloatOr(suffix, only) != only;
  }

  const Status& status() const { return status_; }

 private:
  std::string Key(std::string_view suffix) const { return prefix_ + std::string(suffix); }

  std::int32_t Narrow(std::string_view suffix, const StatusOr<std::uint64_t>& value) {
    if (!value.ok()) return Fail(value.status()), 0;
    if (*value > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
      Fail(InvalidArgument("{}: {} is {}, too large", metadata_.path(), Key(suffix), *value));
      return 0;
    }
    return static_cast<std::int32_t>(*value);
  }

  void Fail(const Status& status) {
    if (status_.ok()) status_ = status;
  }

  const formats::GgufMetadata& metadata_;
  std::string prefix_;
  Status status_;
};

Status RefuseVariants(const formats::GgufFile& file, const ModelConfig& config, Reader& reader) {
  const std::string& path = file.path();
  if (reader.Differs("expert_count", 0)) {
    return Unimplemented("{}: mixture of experts is not supported", path);
  }
  if (reader.Differs("attention.value_length", config.head_dim)) {
    return Unimplemented("{}: attention.value_length must equal attention.key_length {}", path,
                         config.head_dim);
  }
  if (reader.Differs("rope.dimension_count", config.head_dim)) {
    return Unimplemented("{}: rope.dimension_count must equal the head dim {}", path,
                         config.head_dim);
  }
  for (std::string_view scale : {"logit_scale", "embedding_scale", "residual_scale"}) {
    if (reader.Differs(scale, 0) && reader.Differs(scale, 1)) {
      return Unimplemented("{}: {} is not supported", path, scale);
    }
  }
  return OkStatus();
}

Status ReadRopeScaling(const formats::GgufFile& file, Reader& reader, ModelConfig& config) {
  RopeScaling& scaling = config.rope_scaling;
  // Old files have a bare factor, which means linear.
  const double legacy = reader.FloatOr("rope.scale_linear", 1.0);
  scaling.factor = reader.FloatOr("rope.scaling.factor", legacy);
  if (scaling.factor == 0) scaling.factor = 1;
  const std::string type = reader.StringOr("rope.scaling.type", "linear");
  if (type == "none" || (type == "linear" && scaling.factor == 1)) {
    scaling = RopeScaling{};
    return OkStatus();
  }
  if (type == "linear") {
    scaling.type = RopeScalingType::kLinear;
    return OkStatus();
  }
  if (type != "yarn") {
    return Unimplemented("{}: rope.scaling.type {} is not supported; supported: none, linear, yarn",
                         file.path(), formats::Quoted(type));
  }
  scaling.type = RopeScalingType::kYarn;
  scaling.original_context =
      reader.FloatOr("rope.scaling.original_context_length", config.context_length);
  scaling.beta_fast = reader.FloatOr("rope.scaling.yarn_beta_fast", scaling.beta_fast);
  scaling.beta_slow = reader.FloatOr("rope.scaling.yarn_beta_slow", scaling.beta_slow);
  if (reader.Has("rope.scaling.attn_factor")) {
    scaling.attention_factor =
        reader.FloatOr("rope.scaling.attn_factor", 1.0) * (0.1 * std::log(scaling.factor) + 1.0);
  }
  return OkStatus();
}

Status ReadRopeDivisors(const formats::GgufFile& file, ModelConfig& config) {
  const formats::TensorView* tensor = file.Find("rope_freqs.weight");
  if (tensor == nullptr) return OkStatus();
  TANDEM_RETURN_IF_ERROR(file.Get("rope_freqs.weight", {config.head_dim / 2}).status());
  config.rope_divisors.resize(static_cast<std::size_t>(config.head_dim / 2));
  return formats::Dequantize(tensor->dtype, tensor->bytes, config.rope_divisors);
}

// The vocabulary is what the embedding has rows for: tools pad either list.
Status ReadVocabSize(const formats::GgufFile& file, ModelConfig& config) {
  TANDEM_ASSIGN_OR_RETURN(formats::TensorView embedding, file.Get("token_embd.weight"));
  if (embedding.shape.size() != 2 || embedding.rows() > std::numeric_limits<std::int32_t>::max()) {
    return InvalidArgument("{}: token_embd.weight has shape {}, must be [vocabulary, {}]",
                           file.path(), formats::ToString(embedding.shape), config.hidden_size);
  }
  config.vocab_size = static_cast<std::int32_t>(embedding.rows());
  return OkStatus();
}

void ReadEosIds(const formats::GgufFile& file, ModelConfig& config) {
  for (std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                               "tokenizer.ggml.eom_token_id"}) {
    auto id = file.metadata().GetU64(key);
    if (!id.ok() || *id >= static_cast<std::uint64_t>(config.vocab_size)) continue;
    config.eos_ids.push_back(TokenId(static_cast<std::int32_t>(*id)));
  }
  std::sort(config.eos_ids.begin(), config.eos_ids.end());
  config.eos_ids.erase(std::unique(config.eos_ids.begin(), config.eos_ids.end()),
                       config.eos_ids.end());
}

bool HasBias(const formats::GgufFile& file, std::string_view part) {
  return file.Find(fmt::format("blk.0.{}.bias", part)) != nullptr;
}

void ReadParts(const formats::GgufFile& file, ModelConfig& config) {
  config.tied_head = file.Find("output.weight") == nullptr;
  config.qk_norm = file.Find("blk.0.attn_q_norm.weight") != nullptr;
  config.qkv_bias = HasBias(file, "attn_q") || HasBias(file, "attn_qkv");
  config.output_bias = HasBias(file, "attn_output");
  config.mlp_bias = HasBias(file, "ffn_gate");
}

}  // namespace

StatusOr<ModelConfig> ConfigFromGguf(const formats::GgufFile& file) {
  const formats::GgufMetadata& metadata = file.metadata();
  TANDEM_ASSIGN_OR_RETURN(std::string_view name, metadata.GetString("general.architecture"));
  ModelConfig config;
  TANDEM_ASSIGN_OR_RETURN(config.architecture, FindArchitecture(name, kKnown, file.path()));
  Reader reader(metadata, name);
  config.num_layers = reader.Int("block_count");
  config.hidden_size = reader.Int("embedding_length");
  config.intermediate_size = reader.Int("feed_forward_length");
  config.num_heads = reader.Int("attention.head_count");
  config.num_kv_heads = reader.IntOr("attention.head_count_kv", config.num_heads);
  config.context_length = reader.Int("context_length");
  config.rms_norm_eps = static_cast<float>(reader.FloatOr("attention.layer_norm_rms_epsilon", -1));
  config.rope_theta = reader.FloatOr("rope.freq_base", 10000.0);
  TANDEM_RETURN_IF_ERROR(reader.status());
  config.head_dim = reader.IntOr("attention.key_length",
                                 config.num_heads > 0 ? config.hidden_size / config.num_heads : 0);
  // Before anything is sized by these numbers.
  config.vocab_size = 1;
  const std::int32_t window = reader.IntOr("attention.sliding_window", 0);
  if (config.num_layers > 0 && config.num_layers <= ModelConfig::kMaxLayers) {
    config.windows.assign(static_cast<std::size_t>(config.num_layers), window);
  }
  TANDEM_RETURN_IF_ERROR(reader.status());
  TANDEM_RETURN_IF_ERROR(Annotate(config.Validate(), file.path()));
  TANDEM_RETURN_IF_ERROR(RefuseVariants(file, config, reader));
  TANDEM_RETURN_IF_ERROR(ReadRopeScaling(file, reader, config));
  TANDEM_RETURN_IF_ERROR(ReadRopeDivisors(file, config));
  TANDEM_RETURN_IF_ERROR(ReadVocabSize(file, config));
  ReadEosIds(file, config);
  ReadParts(file, config);
  TANDEM_RETURN_IF_ERROR(reader.status());
  TANDEM_RETURN_IF_ERROR(Annotate(config.Validate(), file.path()));
  return config;
}

}  // namespace tandem::model
