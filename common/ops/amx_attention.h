// Attention over bf16 keys and values in AMX tiles. Included after vector_avx512.h, amx_tiles.h,
// amx_attention_data.h, amx_attention_rows.h, amx_attention_many.h and amx_attention_few.h, by
// sources built for AMX; internal linkage.
//
// One pass over the chunks of 64 keys: scores, weights 2^(score - base), their sum, weighted
// values. Weights are rounded to bf16, and queries too, or split into two bf16: a rounding of
// theirs moves all scores of a row together. Sums are f32. The base is the highest score of a row's
// first chunk, and moves only where a chunk's weights would pass kMaxWeight; so sums are rescaled
// rarely, and never for a row because of another. A key that a row does not see has weight 0; where
// zero times its value is not zero (an infinity), an output is not finite, and the call's tokens
// are computed one by one: then no such key is read.
#pragma once

#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

// Rows that the tiles of a call have room for, if it is one of few rows; else 0.
static int64_t FewRowsOf(const AttendArgs& call) {
  return call.rows <= 4 ? 4 : call.rows <= kFewRows ? kFewRows : 0;
}

// Calls of one FewRowsOf, or a single one. Bit i: an output of call i is not finite.
static uint64_t AttendCalls(const AttendArgs* calls, int64_t count, const AttendArgs* after) {
  const int64_t few = FewRowsOf(calls[0]);
  if (few == 4) return AttendFewRows<4>(calls, count, after);
  if (few == kFewRows) return AttendFewRows<kFewRows>(calls, count, after);
  if (calls->head_dim > 32 && calls->head_dim <= 64) return !AttendManyRows<2>(calls);
  if (calls->head_dim > 96 && calls->head_dim <= 128) return !AttendManyRows<4>(calls);
  return !AttendManyRows<0>(calls);
}

static void AttendTokenByToken(const AttendArgs& call) {
  AttendArgs token = call;
  for (int64_t row = 0; row < call.rows; row += token.rows) {
    token.rows = 1;
    while (row + token.rows < call.rows && call.position[row + token.rows] == call.position[row]) {
      ++token.rows;
    }
    token.q = call.q + row;
    token.out = call.out + row;
    token.position = call.position + row;
    if (call.base != nullptr) {
      token.base = call.base + row;
      token.total = call.total + row;
    }
    AttendCalls(&token, 1, nullptr);
  }
}

static void Attend(const AttendArgs* calls, int64_t count, const AttendArgs* after) {
  for (int64_t done = 0; done < count;) {
    const AttendArgs* some = calls + done;
    const int64_t few = FewRowsOf(*some);
    int64_t same = 1;
    while (few > 0 && same < 64 && done + same < count && FewRowsOf(some[same]) == few) ++same;
    const uint64_t bad = AttendCalls(some, same, done + same < count ? some + same : after);
    for (int64_t i = 0; bad != 0 && i < same; ++i) {
      if ((bad >> i & 1) == 0 || some[i].position[0] == some[i].position[some[i].rows - 1])
        continue;
      AttendTokenByToken(some[i]);
    }
    done += same;
  }
  ReleaseTiles();
}

}  // namespace
}  // namespace tandem::ops
