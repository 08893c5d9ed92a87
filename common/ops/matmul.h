// y[rows, n] = x[rows, k] · W[n, k]^T (+ bias) (+ y).
//
// Every row count adds over k in the same order for each output element. Threads divide columns,
// and rows too where columns are few or rows more than a core's cache holds.
#pragma once

#include <cstdint>

#include "common/ops/activations.h"
#include "common/ops/packed_matrix.h"

namespace tandem::ops {

struct MatmulOutput {
  float* y = nullptr;           // [rows, n], row stride y_stride
  std::int64_t y_stride = 0;    // elements; 0 means n
  const float* bias = nullptr;  // [n]
  bool accumulate = false;      // y += product: the residual stream
};

// Requires: x.k == weights.k(), both of context's class; x prepared and behind a Barrier.
void Matmul(const OpsContext& context, const PackedMatrix& weights, const ActivationView& x,
            const MatmulOutput& output, Share share);

struct GatedWeights {
  const PackedMatrix& gate;
  const PackedMatrix& up;
  const float* gate_bias = nullptr;  // [n]
  const float* up_bias = nullptr;    // [n]
};

// Whether the class multiplies gate and up at once, for a product with `next` to follow. It depends
// on the layouts of the three alone.
bool HasGatedMatmul(const OpsContext& context, const PackedMatrix& gate, const PackedMatrix& up,
                    const PackedMatrix& next);
// out = silu(x · gate^T (+ bias)) * (x · up^T (+ bias)): the image only, out.x is not written. What
// Matmul and Swiglu yield, without a pass over memory for each. Requires: HasGatedMatmul(); x
// prepared and behind a Barrier; out of other Activations than x.
void GatedMatmul(const OpsContext& context, const GatedWeights& weights, const ActivationView& x,
                 const ActivationView& out, Share share);

}  // namespace tandem::ops
