// What a model file says about the shape of its network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/hash128.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace tandem::model {

enum class Architecture : std::uint8_t { kLlama, kMistral, kQwen2, kQwen3 };
std::string_view Name(Architecture architecture);  // "llama", …

enum class RopeScalingType : std::uint8_t { kNone, kLinear, kYarn };

// How rotary positions are stretched beyond what the model was first trained on.
struct RopeScaling {
  RopeScalingType type = RopeScalingType::kNone;
  double factor = 1.0;
  double original_context = 0;  // yarn, as the rest
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  std::optional<double> attention_factor;  // of cos and sin; not set: 0.1 ln(factor) + 1
  bool operator==(const RopeScaling&) const = default;
};

// A decoder of the Llama family: RMSNorm, rotary positions, grouped-query attention, SwiGLU.
// A value; Validate()d by whoever makes one from a file.
struct ModelConfig {
  static constexpr std::int32_t kMaxLayers = 1024;

  Architecture architecture = Architecture::kLlama;
  std::int32_t num_layers = 0;
  std::int32_t hidden_size = 0;
  std::int32_t intermediate_size = 0;
  std::int32_t num_heads = 0;
  std::int32_t num_kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t vocab_size = 0;
  std::int32_t context_length = 0;  // tokens
  float rms_norm_eps = 1e-6f;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  // Each frequency is divided by its own: Llama 3's scaling, which GGUF stores as the tensor
  // rope_freqs.weight. [head_dim / 2], or empty: none.
  std::vector<float> rope_divisors;
  bool qk_norm = false;    // RMSNorm over each head of q and k before RoPE
  bool tied_head = false;  // the head is the embedding
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;
  // Per layer: how many tokens back a token sees, itself included; 0: all. [num_layers]
  std::vector<std::int32_t> windows;
  std::vector<TokenId> eos_ids;  // as far as the weights' file names them, ascending

  bool operator==(const ModelConfig&) const = default;
  // Errors: InvalidArgument naming the first field out of range or at odds with another.
  Status Validate() const;
  // "llama, 30 layers, hidden 576, 9/3 heads x 64, vocab 49152, context 8192"
  std::string ToString() const;
};

}  // namespace tandem::model
