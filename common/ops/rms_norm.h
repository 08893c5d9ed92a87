// Root-mean-square normalisation, of whole rows and of single heads (QK norm).
#pragma once

#include <cstdint>

#include "common/ops/activations.h"

namespace tandem::ops {

struct RmsNormArgs {
  const float* x = nullptr;       // [rows, k]
  const float* weight = nullptr;  // [k]
  float eps = 0;
};

// out = x / sqrt(mean(x^2) + eps) * weight, and prepares `out` for a product. Split by rows.
void RmsNorm(const OpsContext& context, const RmsNormArgs& args, const ActivationView& out,
             Share share);

struct HeadNormArgs {
  float* x = nullptr;         // [rows, heads, head_dim], in place, row stride x_stride
  std::int64_t x_stride = 0;  // elements
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  const float* weight = nullptr;  // [head_dim]
  float eps = 0;
};

// Each head normalised on its own. Split by rows.
void HeadNorm(const OpsContext& context, const HeadNormArgs& args, Share share);

}  // namespace tandem::ops
