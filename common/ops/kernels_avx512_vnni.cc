// The avx512-vnni class: the avx512 kernels, and an int8 matrix product for quantised weights.
// Built for AVX-512 with VNNI; may include nothing with external inline functions.
#include "common/ops/vector_avx512.h"
// The vector type first: the kernels below are written over it.
#include "common/ops/simd_rows.h"
// Uses simd_rows.h.
#include "common/ops/simd_attention.h"
#include "common/ops/simd_matmul.h"
// Uses simd_matmul.h.
#include "common/ops/simd_int_matmul.h"

namespace tandem::ops {
namespace {

void Matmul(const MatmulArgs* args) {
  const bool done =
      WithIntWeights(*args->weights, [&]<IntWeights kWeights>() { IntMatmul<kWeights>(args); });
  if (!done) MatmulF32(args);
}

}  // namespace

const Kernels kAvx512VnniKernels = {
    .rms_norm = RmsNorm,
    .rotate_halves = RotateHalves,
    .to_bf16 = ToBf16,
    .swiglu = Swiglu<SiluTimes>,
    .image_row = QuantizeRow,
    .matmul = Matmul,
    .attend = Attend,
    .largest = Largest,
    .exp_sum = ExpSum,
    .attend_rows = kAttendRows,
    .base_unit = 1.0f,
    .panel_unit = 4,
};

}  // namespace tandem::ops
