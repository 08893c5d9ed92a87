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

// out = x / sqrt(mean(x^2) + eps) * weight, and prepares `out` for a product: of some rows.
void RmsNorm(const OpsContext& context, const RmsNormArgs& args, const ActivationView& out,
             Range rows);

struct HeadNormArgs {
  float* x = nullptr;         // [rows, heads, head_dim], in place, row stride x_stride
  std::int64_t x_stride = 0;  // elements
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  const float* weight = nullptr;  // [head_dim]
  float eps = 0;
};

// Each head of some rows normalised on its own.
void HeadNorm(const OpsContext& context, const HeadNormArgs& args, Range rows);

}  // namespace tandem::ops
