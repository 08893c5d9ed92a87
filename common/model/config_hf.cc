#include "common/model/config_hf.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <string_view>

#include "common/formats/tensor_source.h"
#include "common/model/architecture.h"

namespace tandem::model {
namespace {

namespace json = boost::json;

constexpr std::array kKnownJson = {Architecture::kLlama, Architecture::kMistral, Architecture::kQwen2,
                               Architecture::kQwen3};

std::string_view View(const json::string& s) { return {s.data(), s.size()}; }

// Reads fields of one object; null counts as missing. The first error stays and later reads answer
// fallbacks.
class JsonReader {
 public:
  JsonReader(std::string name, const json::object& object) : name_(std::move(name)), object_(&object) {}

  const json::value* Find(std::string_view key) const {
    const json::value* value = object_->if_contains({key.data(), key.size()});
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  bool Has(std::string_view key) const { return Find(key) != nullptr; }

  std::int32_t Int(std::string_view key) {
    if (!Has(key)) return Fail(key, "is missing"), 0;
    return IntOr(key, 0);
  }
  std::int32_t IntOr(std::string_view key, std::int32_t fallback) {
    const json::value* value = Find(key);
    if (value == nullptr) return fallback;
    boost::system::error_code error;
    const auto number = value->to_number<std::int32_t>(error);
    if (error) return Fail(key, "is no whole number of 32 bits"), fallback;
    return number;
  }
  double FloatOr(std::string_view key, double fallback) {
    const json::value* value = Find(key);
    if (value == nullptr) return fallback;
    boost::system::error_code error;
    const auto number = value->to_number<double>(error);
    if (error) return Fail(key, "is no number"), fallback;
    return number;
  }
  bool BoolOr(std::string_view key, bool fallback) {
    const json::value* value = Find(key);
    if (value == nullptr) return fallback;
    if (!value->is_bool()) return Fail(key, "is neither true nor false"), fallback;
    return value->get_bool();
  }
  std::string StringOr(std::string_view key, std::string_view fallback) {
    const json::value* value = Find(key);
    if (value == nullptr) return std::string(fallback);
    if (!value->is_string()) return Fail(key, "is no string"), std::string(fallback);
    return std::string(View(value->get_string()));
  }
  const json::object* ObjectOrNull(std::string_view key) {
    const json::value* value = Find(key);
    if (value == nullptr) return nullptr;
    if (!value->is_object()) return Fail(key, "is no object"), nullptr;
    return &value->get_object();
  }

  void Fail(std::string_view key, std::string_view what) {
    if (status_.ok()) status_ = InvalidArgument("{}: {} {}", name_, key, what);
  }
  const Status& status() const { return status_; }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  const json::object* object_;
  Status status_;
};

// Llama 3: long wavelengths are divided by factor, short ones kept, those between blended.
void SetLlama3Divisors(JsonReader& rope, ModelConfig& config) {
  const double factor = rope.FloatOr("factor", 0);
  const double low = rope.FloatOr("low_freq_factor", 1);
  const double high = rope.FloatOr("high_freq_factor", 4);
  const double original = rope.FloatOr("original_max_position_embeddings", 0);
  if (!(factor > 0)) rope.Fail("factor", "must be above 0");
  if (!(original > 0)) rope.Fail("original_max_position_embeddings", "must be above 0");
  if (!(high > low && low > 0)) rope.Fail("high_freq_factor", "must be above low_freq_factor");
  if (!rope.status().ok()) return;
  for (std::int32_t i = 0; i < config.head_dim / 2; ++i) {
    const double frequency = std::pow(config.rope_theta, -2.0 * i / config.head_dim);
    const double wavelength = 2 * std::numbers::pi / frequency;
    double divisor = 1;
    if (wavelength > original / low) {
      divisor = factor;
    } else if (wavelength > original / high) {
      const double smooth = (original / wavelength - low) / (high - low);
      divisor = 1 / ((1 - smooth) / factor + smooth);
    }
    config.rope_divisors.push_back(static_cast<float>(divisor));
  }
}

void SetYarn(JsonReader& rope, ModelConfig& config) {
  RopeScaling& scaling = config.rope_scaling;
  scaling.type = RopeScalingType::kYarn;
  scaling.factor = rope.FloatOr("factor", 1);
  scaling.original_context =
      rope.FloatOr("original_max_position_embeddings", config.context_length);
  scaling.beta_fast = rope.FloatOr("beta_fast", 32);
  scaling.beta_slow = rope.FloatOr("beta_slow", 1);
  if (rope.Has("attention_factor")) {
    scaling.attention_factor = rope.FloatOr("attention_factor", 1);
  }
  const double stretched = scaling.original_context * scaling.factor;
  if (stretched > config.context_length && stretched < (1 << 26)) {
    config.context_length = static_cast<std::int32_t>(stretched);
  }
}

// Old files: rope_theta and rope_scaling; new ones: rope_parameters with the theta inside.
Status ReadRope(JsonReader& reader, ModelConfig& config) {
  config.rope_theta = reader.FloatOr("rope_theta", 10000.0);
  const json::object* object = reader.ObjectOrNull("rope_parameters");
  if (object == nullptr) object = reader.ObjectOrNull("rope_scaling");
  TANDEM_RETURN_IF_ERROR(reader.status());
  if (object == nullptr) return OkStatus();
  JsonReader rope(reader.name() + ": rope scaling", *object);
  config.rope_theta = rope.FloatOr("rope_theta", config.rope_theta);
  const std::string type = rope.StringOr("rope_type", rope.StringOr("type", "default"));
  if (rope.FloatOr("partial_rotary_factor", 1) != 1) {
    return Unimplemented("{}: partial rotary positions are not supported", reader.name());
  }
  if (type == "linear") {
    config.rope_scaling.type = RopeScalingType::kLinear;
    config.rope_scaling.factor = rope.FloatOr("factor", 1);
  } else if (type == "llama3") {
    SetLlama3Divisors(rope, config);
  } else if (type == "yarn") {
    if (rope.Has("mscale") || rope.Has("mscale_all_dim")) {
      return Unimplemented("{}: yarn with mscale is not supported", reader.name());
    }
    SetYarn(rope, config);
  } else if (type != "default") {
    return Unimplemented(
        "{}: rope scaling {} is not supported; supported: default, linear, llama3, yarn",
        reader.name(), formats::Quoted(type));
  }
  return rope.status();
}

// Which layers see only a window: Mistral all; Qwen those from max_window_layers on, or those that
// layer_types names.
void ReadWindows(JsonReader& reader, ModelConfig& config) {
  config.windows.assign(static_cast<std::size_t>(config.num_layers), 0);
  const bool qwen =
      config.architecture == Architecture::kQwen2 || config.architecture == Architecture::kQwen3;
  const bool used = qwen ? reader.BoolOr("use_sliding_window", false)
                         : config.architecture == Architecture::kMistral;
  if (!used) return;
  const std::int32_t window = reader.IntOr("sliding_window", qwen ? 4096 : 0);
  const json::value* types = reader.Find("layer_types");
  if (types == nullptr) {
    const std::int32_t first = qwen ? reader.IntOr("max_window_layers", 28) : 0;
    for (std::int32_t l = std::max(first, 0); l < config.num_layers; ++l) {
      config.windows[static_cast<std::size_t>(l)] = window;
    }
    return;
  }
  if (!types->is_array() || types->get_array().size() != config.windows.size()) {
    return reader.Fail("layer_types", "is no list of one entry a layer");
  }
  for (std::size_t l = 0; l < config.windows.size(); ++l) {
    const json::value& type = types->get_array()[l];
    if (type == "sliding_attention") {
      config.windows[l] = window;
    } else if (type != "full_attention") {
      return reader.Fail("layer_types", "has an entry that is neither full nor sliding attention");
    }
  }
}

// One id or a list of them. Errors: InvalidArgument.
Status AddEosIds(const std::string& name, const json::value& object, ModelConfig& config) {
  if (!object.is_object()) return OkStatus();
  const json::value* value = object.get_object().if_contains("eos_token_id");
  if (value == nullptr || value->is_null()) return OkStatus();
  json::array one = {*value};
  const json::array& ids = value->is_array() ? value->get_array() : one;
  if (ids.size() > 1000) return InvalidArgument("{}: {} eos_token_ids", name, ids.size());
  for (const json::value& id : ids) {
    boost::system::error_code error;
    const auto number = id.to_number<std::int32_t>(error);
    if (error) return InvalidArgument("{}: eos_token_id is neither an id nor a list of ids", name);
    config.eos_ids.push_back(TokenId(number));
  }
  return OkStatus();
}

Status RefuseVariants(JsonReader& reader) {
  if (reader.Has("quantization_config")) {
    return Unimplemented("{}: quantised safetensors are not supported; use F32, F16 or BF16",
                         reader.name());
  }
  const std::string activation = reader.StringOr("hidden_act", "silu");
  if (activation != "silu") {
    return Unimplemented("{}: hidden_act {} is not supported; supported: silu", reader.name(),
                         formats::Quoted(activation));
  }
  if (reader.FloatOr("partial_rotary_factor", 1) != 1) {
    return Unimplemented("{}: partial rotary positions are not supported", reader.name());
  }
  return OkStatus();
}

void ReadShape(JsonReader& reader, ModelConfig& config) {
  const Architecture architecture = config.architecture;
  config.num_layers = reader.Int("num_hidden_layers");
  config.hidden_size = reader.Int("hidden_size");
  config.intermediate_size = reader.Int("intermediate_size");
  config.num_heads = reader.Int("num_attention_heads");
  config.num_kv_heads = reader.IntOr("num_key_value_heads",
                                     architecture == Architecture::kMistral ? 8 : config.num_heads);
  config.vocab_size = reader.Int("vocab_size");
  config.context_length = reader.IntOr("max_position_embeddings", 2048);
  const std::int32_t divided = config.num_heads > 0 ? config.hidden_size / config.num_heads : 0;
  config.head_dim = reader.IntOr("head_dim", architecture == Architecture::kQwen3 ? 128 : divided);
  config.rms_norm_eps = static_cast<float>(reader.FloatOr("rms_norm_eps", 1e-6));
  config.tied_head = reader.BoolOr("tie_word_embeddings", false);
  config.qk_norm = architecture == Architecture::kQwen3;
  const bool bias = architecture != Architecture::kMistral &&
                    architecture != Architecture::kQwen2 && reader.BoolOr("attention_bias", false);
  config.qkv_bias = bias || architecture == Architecture::kQwen2;
  config.output_bias = bias;
  config.mlp_bias = architecture == Architecture::kLlama && reader.BoolOr("mlp_bias", false);
}

}  // namespace

StatusOr<ModelConfig> ConfigFromHf(const std::string& name, const json::value& config_json,
                                   const json::value& generation) {
  if (!config_json.is_object()) return InvalidArgument("{}: is no JSON object", name);
  JsonReader reader(name, config_json.get_object());
  ModelConfig config;
  const std::string type = reader.StringOr("model_type", "");
  TANDEM_RETURN_IF_ERROR(reader.status());
  TANDEM_ASSIGN_OR_RETURN(config.architecture, FindArchitecture(type, kKnownJson, name));
  TANDEM_RETURN_IF_ERROR(RefuseVariants(reader));
  ReadShape(reader, config);
  TANDEM_RETURN_IF_ERROR(reader.status());
  // Before anything is sized by these numbers.
  if (config.num_layers > 0 && config.num_layers <= ModelConfig::kMaxLayers) {
    ReadWindows(reader, config);
  }
  TANDEM_RETURN_IF_ERROR(reader.status());
  TANDEM_RETURN_IF_ERROR(Annotate(config.Validate(), name));
  TANDEM_RETURN_IF_ERROR(ReadRope(reader, config));
  TANDEM_RETURN_IF_ERROR(AddEosIds(name, config_json, config));
  TANDEM_RETURN_IF_ERROR(AddEosIds(name, generation, config));
  std::sort(config.eos_ids.begin(), config.eos_ids.end());
  config.eos_ids.erase(std::unique(config.eos_ids.begin(), config.eos_ids.end()),
                       config.eos_ids.end());
  TANDEM_RETURN_IF_ERROR(Annotate(config.Validate(), name));
  return config;
}

}  // namespace tandem::model
