// The gate of a SwiGLU feed-forward layer.
#pragma once

#include "common/ops/activations.h"

namespace tandem::ops {

struct SwigluArgs {
  const float* gate = nullptr;  // [rows, k]
  const float* up = nullptr;    // [rows, k]
};

// out = silu(gate) * up, and prepares `out` for a product. out.x may be gate or up. Of
// some rows.
void Swiglu(const OpsContext& context, const SwigluArgs& args, const ActivationView& out,
            Range rows);

}  // namespace tandem::ops
