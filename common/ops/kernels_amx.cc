// The amx class: 12-bit activations, as two planes of int8, with quantised weights; attention in
// tiles of bf16; the rest as in avx512. Few rows are multiplied by vectors, many in AMX tiles: the
// same integers, the same bytes. Built for AMX; may include nothing with external inline functions.
#include "common/ops/vector_avx512.h"
// The vector type first: the kernels below are written over it.
#include "common/ops/simd_rows.h"
// Uses vector_avx512.h.
#include "common/ops/amx_tiles.h"
// Uses amx_tiles.h.
#include "common/ops/amx_attention_data.h"
// Use amx_attention_data.h.
#include "common/ops/amx_attention_few.h"
#include "common/ops/amx_attention_many.h"
// Uses both.
#include "common/ops/amx_attention.h"
// Uses simd_rows.h.
#include "common/ops/simd_matmul.h"
// Uses simd_matmul.h.
#include "common/ops/simd_int_matmul.h"
// Uses simd_int_matmul.h.
#include "common/ops/amx_matmul.h"

namespace tandem::ops {
namespace {

constexpr int64_t kVectorRows = 3;  // rows up to which vectors are faster than tiles

void Matmul(const MatmulArgs* args) {
  const bool done = WithIntWeights(*args->weights, [&]<IntWeights kWeights>() {
    if (args->rows <= kVectorRows) {
      IntMatmul<kWeights, 2>(args);
    } else {
      AmxMatmul<kWeights>(args);
    }
  });
  if (!done) MatmulF32(args);
}

}  // namespace

const Kernels kAmxKernels = {RmsNorm, Swiglu, QuantizeRow<2>, Matmul,
                             Attend,  ExpSum, kAmxAttendRows, kTileSide};

}  // namespace tandem::ops
