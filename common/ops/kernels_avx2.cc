// The avx2 class. Built for AVX2, FMA and F16C; may include nothing with external inline functions.
#include "common/ops/vector_avx2.h"
// The vector type first: the kernels below are written over it.
#include "common/ops/simd_rows.h"
// Uses simd_rows.h.
#include "common/ops/simd_attention.h"
#include "common/ops/simd_matmul.h"

namespace tandem::ops {

const Kernels kAvx2Kernels = {
    .rms_norm = RmsNorm,
    .rotate_halves = RotateHalves,
    .to_bf16 = ToBf16,
    .swiglu = Swiglu<SiluTimes>,
    .matmul = MatmulF32,
    .attend = Attend,
    .largest = Largest,
    .exp_sum = ExpSum,
    .attend_rows = kAttendRows,
    .base_unit = 1.0f,
    .panel_unit = kFusedVecs / kPanelVecs,
};

}  // namespace tandem::ops
