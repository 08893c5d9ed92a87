// y[rows, n] = x[rows, k] · W[n, k]^T (+ bias) (+ y).
//
// Every row count adds over k in the same order for each output element. Threads divide columns,
// and rows too where columns are few.
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

}  // namespace tandem::ops
