// Attention over bf16 keys and values in AMX tiles. Included after vector_avx512.h, amx_tiles.h,
// amx_attention_data.h, amx_attention_rows.h, amx_attention_many.h and amx_attention_few.h, by
// sources built for AMX; internal linkage.
//
// One pass over the chunks of 64 keys: scores, weights 2^(score - base), their sum, weighted
// values. Weights are rounded to bf16; queries are split into two bf16, for
// a rounding of theirs moves all scores of a row together. Sums are f32. The base is the highest
// score of a row's first chunk, and moves only where a chunk's weights would pass kMaxWeight; so
// sums are rescaled rarely, and never for a row because of another. A key that a row does not see
// has weight 0; where zero times its value is not zero (an infinity), an output is not finite, and
// the call's tokens are computed one by one: then no such key is read.
#pragma once

#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

// Returns whether every output is finite.
static bool AttendRows(const AttendArgs* args) {
  if (args->rows <= 4) return AttendFewRows<4>(args);
  if (args->rows <= 8) return AttendFewRows<8>(args);
  return args->head_dim > 32 && args->head_dim <= 64 ? AttendManyRows<2>(args)
                                                     : AttendManyRows<0>(args);
}

static void Attend(const AttendArgs* args) {
  const bool finite = AttendRows(args);
  if (!finite && args->position[0] != args->position[args->rows - 1]) {
    AttendArgs token = *args;
    for (int64_t row = 0; row < args->rows; row += token.rows) {
      token.rows = 1;
      while (row + token.rows < args->rows &&
             args->position[row + token.rows] == args->position[row]) {
        ++token.rows;
      }
      token.q = args->q + row;
      token.out = args->out + row;
      token.position = args->position + row;
      AttendRows(&token);
    }
  }
  ReleaseTiles();
}

}  // namespace
}  // namespace tandem::ops
