// The amx class: activations and weights in tiles of bf16, where the weights are quantised or bf16
// in the file; attention in tiles of bf16; the rest as in avx512. Built for AMX; may include
// nothing with external inline functions.
#include "common/ops/vector_avx512.h"
// The vector type first: the kernels below are written over it.
#include "common/ops/simd_rows.h"
// Use vector_avx512.h.
#include "common/ops/amx_exp2.h"
#include "common/ops/amx_tiles.h"
// Uses amx_tiles.h.
#include "common/ops/amx_attention_data.h"
// Use these.
#include "common/ops/amx_attention_fetch.h"
#include "common/ops/amx_attention_rows.h"
#include "common/ops/amx_attention_slots.h"
// Uses fetch and rows.
#include "common/ops/amx_attention_few_data.h"
// Use all of these.
#include "common/ops/amx_attention_few.h"
#include "common/ops/amx_attention_many.h"
// Uses both.
#include "common/ops/amx_attention.h"
// Uses simd_rows.h.
#include "common/ops/simd_matmul.h"
// Uses vector_avx512.h.
#include "common/ops/amx_unpack.h"
// Uses amx_unpack.h.
#include "common/ops/amx_turned.h"
// Uses simd_matmul.h, amx_tiles.h and amx_unpack.h.
#include "common/ops/amx_few_rows.h"
// Use these.
#include "common/ops/amx_gated.h"
#include "common/ops/amx_many_rows.h"
// Uses these.
#include "common/ops/amx_matmul.h"

namespace tandem::ops {
namespace {

void Matmul(const MatmulArgs* args) {
  const bool done = WithTileWeights(*args->weights, [&]<TileWeights kWeights, bool kHalf>() {
    TileMatmul<kWeights, kHalf>(args, PlainProduct{args});
  });
  if (!done) MatmulF32(args);
}

void GatedMatmul(const GatedArgs* args) {
  const bool done = WithTileWeights(*args->gate.weights, [&]<TileWeights kWeights, bool kHalf>() {
    TileMatmul<kWeights, kHalf>(&args->gate, GatedProduct{args});
  });
  if (!done) __builtin_trap();  // the caller asks HasGatedMatmul() first
}

}  // namespace

const Kernels kAmxKernels = {
    .rms_norm = RmsNorm,
    .rotate_halves = RotateHalves,
    .to_bf16 = ToBf16,
    .swiglu = Swiglu<QuickSiluTimes>,
    .image_row = RoundRow,
    .matmul = Matmul,
    .attend = Attend,
    .largest = Largest,
    .exp_sum = ExpSum,
    .attend_rows = kAmxAttendRows,
    .base_unit = 0.693147181f,
    .panel_unit = 2,
    .gated_matmul = GatedMatmul,
};

}  // namespace tandem::ops
