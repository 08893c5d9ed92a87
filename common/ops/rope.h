// Rotary position embedding from a table over the absolute position.
//
// The angle of pair i at position p is p * inv_freq[i], in double; cos and sin are scaled by the
// attention factor (YaRN) and rounded to f32 once. The caller computes inv_freq, so every scaling
// rule (linear, llama3, YaRN) is a matter of the model alone. The rotation uses no fused
// multiply-add and is the same in every numerics class.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/ops/aligned_buffer.h"
#include "common/ops/ops_context.h"
#include "common/ops/share.h"

namespace tandem::ops {

enum class RopePairs : std::uint8_t {
  kInterleaved,  // (0, 1), (2, 3), …: "norm", GGUF's llama
  kHalves,       // (i, i + rotated / 2): "neox", safetensors and Qwen
};

// Cosines and sines of all positions. Immutable after Create.
class RopeTable {
 public:
  RopeTable() = default;
  // Rotates the first 2 * inv_freq.size() elements of a head. Errors: InvalidArgument if a size is
  // below 1 or the table would pass 4 GiB, ResourceExhausted.
  static StatusOr<RopeTable> Create(std::span<const double> inv_freq, double attention_factor,
                                    std::int64_t num_positions);

  std::int64_t num_pairs() const { return num_pairs_; }
  std::int64_t num_positions() const { return num_positions_; }
  // [num_pairs] each. Requires: 0 <= position < num_positions().
  const float* cos(std::int64_t position) const {
    return table_.As<float>() + position * 2 * num_pairs_;
  }
  const float* sin(std::int64_t position) const { return cos(position) + num_pairs_; }

 private:
  std::int64_t num_pairs_ = 0;
  std::int64_t num_positions_ = 0;
  AlignedBuffer table_;  // [num_positions, 2 (cos, sin), num_pairs] f32
};

struct RopeArgs {
  float* x = nullptr;         // [rows, heads, head_dim], in place, row stride x_stride
  std::int64_t x_stride = 0;  // elements
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;                // >= 2 * num_pairs; the rest passes unchanged
  const std::int32_t* positions = nullptr;  // [rows] absolute
  RopePairs pairs = RopePairs::kInterleaved;
};

// Of some rows.
void Rope(const OpsContext& context, const RopeTable& table, const RopeArgs& args, Range rows);

}  // namespace tandem::ops
