#include "common/model/config.h"

#include <cmath>
#include <string>

namespace tandem::model {
namespace {

// Generous bounds: past any model there is, small enough that no product of two overflows.

constexpr std::int32_t kMaxWidth = 1 << 20;
constexpr std::int32_t kMaxHeads = 1024;
constexpr std::int32_t kMaxHeadDim = 256;  // what the attention kernels take
constexpr std::int32_t kMaxVocab = 1 << 24;
constexpr std::int32_t kMaxContext = 1 << 26;

Status InRange(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return OkStatus();
  return InvalidArgument("model config: {} is {}, must be {} to {}", field, value, low, high);
}

Status Positive(std::string_view field, double value) {
  if (std::isfinite(value) && value > 0) return OkStatus();
  return InvalidArgument("model config: {} is {}, must be finite and above 0", field, value);
}

Status CheckRope(const ModelConfig& c) {
  TANDEM_RETURN_IF_ERROR(Positive("rope theta", c.rope_theta));
  if (!c.rope_divisors.empty() &&
      static_cast<std::int64_t>(c.rope_divisors.size()) * 2 != c.head_dim) {
    return InvalidArgument("model config: {} rope divisors for head dim {}, must be half of it",
                           c.rope_divisors.size(), c.head_dim);
  }
  for (float divisor : c.rope_divisors) {
    TANDEM_RETURN_IF_ERROR(Positive("rope divisor", divisor));
  }
  const RopeScaling& s = c.rope_scaling;
  if (s.type == RopeScalingType::kNone) return OkStatus();
  TANDEM_RETURN_IF_ERROR(Positive("rope scaling factor", s.factor));
  if (s.type == RopeScalingType::kLinear) return OkStatus();
  TANDEM_RETURN_IF_ERROR(Positive("rope scaling original context", s.original_context));
  TANDEM_RETURN_IF_ERROR(Positive("rope scaling beta_fast", s.beta_fast));
  TANDEM_RETURN_IF_ERROR(Positive("rope scaling beta_slow", s.beta_slow));
  if (s.attention_factor) {
    TANDEM_RETURN_IF_ERROR(Positive("rope scaling attention_factor", *s.attention_factor));
  }
  return OkStatus();
}

Status CheckShape(const ModelConfig& c) {
  TANDEM_RETURN_IF_ERROR(InRange("number of layers", c.num_layers, 1, ModelConfig::kMaxLayers));
  TANDEM_RETURN_IF_ERROR(InRange("hidden size", c.hidden_size, 1, kMaxWidth));
  TANDEM_RETURN_IF_ERROR(InRange("intermediate size", c.intermediate_size, 1, kMaxWidth));
  TANDEM_RETURN_IF_ERROR(InRange("number of heads", c.num_heads, 1, kMaxHeads));
  TANDEM_RETURN_IF_ERROR(InRange("number of KV heads", c.num_kv_heads, 1, kMaxHeads));
  TANDEM_RETURN_IF_ERROR(InRange("head dim", c.head_dim, 2, kMaxHeadDim));
  TANDEM_RETURN_IF_ERROR(InRange("vocabulary size", c.vocab_size, 1, kMaxVocab));
  TANDEM_RETURN_IF_ERROR(InRange("context length", c.context_length, 1, kMaxContext));
  if (c.num_heads % c.num_kv_heads != 0) {
    return InvalidArgument("model config: {} heads are not a multiple of {} KV heads", c.num_heads,
                           c.num_kv_heads);
  }
  if (c.head_dim % 2 != 0) {
    return InvalidArgument("model config: head dim {} is odd, rotary positions need pairs",
                           c.head_dim);
  }
  return OkStatus();
}

std::string_view ScalingName(RopeScalingType type) {
  switch (type) {
    case RopeScalingType::kNone:
      return "no";
    case RopeScalingType::kLinear:
      return "linear";
    case RopeScalingType::kYarn:
      return "yarn";
  }
  return "?";
}

}  // namespace

std::string_view Name(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
      return "llama";
    case Architecture::kMistral:
      return "mistral";
    case Architecture::kQwen2:
      return "qwen2";
    case Architecture::kQwen3:
      return "qwen3";
  }
  return "?";
}

Status ModelConfig::Validate() const {
  TANDEM_RETURN_IF_ERROR(CheckShape(*this));
  TANDEM_RETURN_IF_ERROR(CheckRope(*this));
  TANDEM_RETURN_IF_ERROR(Positive("RMSNorm epsilon", rms_norm_eps));
  if (static_cast<std::int64_t>(windows.size()) != num_layers) {
    return InvalidArgument("model config: {} windows for {} layers", windows.size(), num_layers);
  }
  for (std::int32_t window : windows) {
    TANDEM_RETURN_IF_ERROR(InRange("sliding window", window, 0, kMaxContext));
  }
  for (TokenId id : eos_ids) {
    TANDEM_RETURN_IF_ERROR(InRange("end-of-sequence token id", id.value(), 0, vocab_size - 1));
  }
  return OkStatus();
}

std::string ModelConfig::ToString() const {
  std::string out =
      fmt::format("{}, {} layers, hidden {}, ff {}, {}/{} heads x {}, vocab {}, context {}",
                  Name(architecture), num_layers, hidden_size, intermediate_size, num_heads,
                  num_kv_heads, head_dim, vocab_size, context_length);
  if (rope_scaling.type != RopeScalingType::kNone) {
    out +=
        fmt::format(", {} rope scaling x{}", ScalingName(rope_scaling.type), rope_scaling.factor);
  }
  if (!rope_divisors.empty()) out += ", rope divisors";
  return out;
}

}  // namespace tandem::model
