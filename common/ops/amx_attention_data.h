// What AMX attention keeps of one call, in scratch: queries, keys and values as tiles, running
// sums. Included after vector_avx512.h and amx_tiles.h, by sources built for AMX; internal linkage.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

constexpr int64_t kKeyTiles = kKeyChunk / kTileSide;
constexpr int64_t kPairDims = 32;  // bf16 elements of a tile's row
constexpr int64_t kTileFloats = kTileSide * kTileSide;

constexpr float kMaxGrowth = 8.0f;  // weights stay below 2^8

// Query rows go in tiles of 16, one a lane; lanes past the last row hold zero queries and see what
// the last row sees. Per-row arrays are [query_tiles, 16].
struct AttendData {
  const AttendArgs* args;
  int64_t query_tiles;
  int64_t steps;      // head_dim in whole 32s
  int64_t dim_tiles;  // head_dim in whole 16s
  int32_t* begin;     // first key that the row sees
  int32_t* end;       // past the last
  float* max;         // what exponents are relative to: at most kMaxGrowth below the maximum
  float* total;       // of the weights so far
  float* sums;        // [query_tiles, dim_tiles, 16 dims, 16 rows] weighted values so far
  uint8_t* queries;   // [query_tiles, steps, 2 (high, low), 16 dim pairs, 16 rows, 2] bf16
  uint8_t* values;    // [2 chunks, 2, dim_tiles, 16 dims, 32 keys] bf16
  uint8_t* copies;    // [3 (values, 2 chunks' keys), kKeyChunk, steps * 32] bf16
  float* scores;      // [2 items, kKeyChunk, 16 rows]
  uint8_t* weights;   // [2 items, 2, 2 (high, low), 16 key pairs, 16 rows, 2] bf16
  float* rescale;     // [2 items, 16 rows] factor of `sums` before an item's values are added
};

// 64 keys. Those of a key tile lie in place where they can, else in a copy; the values are
// transposed. Values of keys that no row of the call sees are zero.
struct KeyChunk {
  int64_t first;       // position
  int64_t tile_begin;  // key tiles that any row sees
  int64_t tile_end;
  const uint8_t* keys[kKeyTiles];
  int64_t key_stride[kKeyTiles];  // bytes
  const uint8_t* values[kKeyTiles];
  int64_t value_stride[kKeyTiles];
  uint8_t* transposed;  // [2, dim_tiles, 16 dims, 32 keys] bf16
};

static AttendData MakeAttendData(const AttendArgs* args) {
  AttendData data;
  data.args = args;
  data.query_tiles = (args->rows + kTileSide - 1) / kTileSide;
  data.steps = (args->head_dim + kPairDims - 1) / kPairDims;
  data.dim_tiles = (args->head_dim + kTileSide - 1) / kTileSide;
  uint8_t* next = reinterpret_cast<uint8_t*>(args->scratch);
  const auto take = [&](int64_t bytes) {
    uint8_t* taken = next;
    next += bytes;
    return taken;
  };
  const auto take_floats = [&](int64_t count) { return reinterpret_cast<float*>(take(count * 4)); };
  const int64_t lanes = data.query_tiles * kTileSide;
  data.begin = reinterpret_cast<int32_t*>(take(lanes * 4));
  data.end = reinterpret_cast<int32_t*>(take(lanes * 4));
  data.max = take_floats(lanes);
  data.total = take_floats(lanes);
  data.sums = take_floats(data.query_tiles * data.dim_tiles * kTileFloats);
  data.queries = take(data.query_tiles * data.steps * 2 * kTileBytes);
  data.values = take(2 * 2 * data.dim_tiles * kTileBytes);
  data.copies = take(3 * kKeyChunk * data.steps * kPairDims * 2);
  data.scores = take_floats(2 * kKeyChunk * kTileSide);
  data.weights = take(2 * 4 * kTileBytes);
  data.rescale = take_floats(2 * kTileSide);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const int64_t row = lane < args->rows ? lane : args->rows - 1;
    const int64_t begin = args->window > 0 ? args->position[row] - args->window + 1 : 0;
    data.begin[lane] = static_cast<int32_t>(begin > 0 ? begin : 0);
    data.end[lane] = args->position[row] + 1;
    data.max[lane] = -__builtin_inff();
    data.total[lane] = 0;
  }
  for (int64_t i = 0; i < data.query_tiles * data.dim_tiles * kTileSide; ++i) {
    Store(data.sums + i * kLanes, Zero());
  }
  return data;
}

// 2^x for x <= kMaxGrowth: 2^floor(x) times the minimax polynomial (error 8e-8) of the rest. Two
// instructions do what a rounded multiple, two products and integer arithmetic do in Exp.
static inline Vec Exp2(Vec x) {
  const Vec rest = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  Vec p = Set(1.87757681e-3f);
  p = Fma(p, rest, Set(8.98933969e-3f));
  p = Fma(p, rest, Set(5.58263175e-2f));
  p = Fma(p, rest, Set(2.40153611e-1f));
  p = Fma(p, rest, Set(6.93153083e-1f));
  p = Fma(p, rest, Set(9.99999940e-1f));
  return _mm512_scalef_ps(p, x);
}

// A tile product would take a denormal sum for zero; so that all do, whatever follows.
static inline Vec WithoutDenormals(Vec v) {
  const Vec smallest = Set(1.17549435e-38f);
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(_mm512_abs_ps(v), smallest, _CMP_NLT_UQ), v);
}

// `left` dims of an output at most. Returns the lanes that are not finite.
static inline __mmask16 StoreDims(float* to, Vec v, int64_t left) {
  if (left >= kLanes) {
    Store(to, v);
  } else if (left > 0) {
    StorePart(to, v, left);
  }
  return _mm512_fpclass_ps_mask(v, 0x99);
}

static inline __m512i RoundToBf16(Vec low, Vec high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

// Queries times scale times log2(e), each as the sum of two bf16: scores are exponents of two.
static void SplitQueries(const AttendData& data) {
  const AttendArgs* args = data.args;
  const Vec scale = Set(args->scale * 1.44269504f);
  for (int64_t tile = 0; tile < data.query_tiles; ++tile) {
    for (int64_t step = 0; step < data.steps; ++step) {
      Vec high[kTileSide], low[kTileSide];
      for (int64_t i = 0; i < kTileSide; ++i) {
        const int64_t row = tile * kTileSide + i;
        Vec part[2];
        for (int64_t half = 0; half < 2; ++half) {
          const int64_t dim = step * kPairDims + half * kLanes;
          const int64_t left = row < args->rows ? args->head_dim - dim : 0;
          part[half] = Zero();
          if (left >= kLanes) {
            part[half] = Mul(Load(args->q[row] + dim), scale);
          } else if (left > 0) {
            part[half] = Mul(LoadPart(args->q[row] + dim, left), scale);
          }
        }
        const __m512i rounded = RoundToBf16(part[0], part[1]);
        high[i] = _mm512_castsi512_ps(rounded);
        low[i] = _mm512_castsi512_ps(
            RoundToBf16(Sub(part[0], Bf16ToVec(_mm512_castsi512_si256(rounded))),
                        Sub(part[1], Bf16ToVec(_mm512_extracti64x4_epi64(rounded, 1)))));
      }
      Transpose(high);
      Transpose(low);
      uint8_t* to = data.queries + (tile * data.steps + step) * 2 * kTileBytes;
      for (int64_t i = 0; i < kTileSide; ++i) {
        Store(reinterpret_cast<float*>(to) + i * kLanes, high[i]);
        Store(reinterpret_cast<float*>(to + kTileBytes) + i * kLanes, low[i]);
      }
    }
  }
}

static const uint8_t* KeyRow(const AttendArgs* args, int64_t position) {
  return args->kv + args->block_table[position / args->block_size] * args->block_bytes +
         position % args->block_size * args->head_dim * 2;
}

// `elements` bf16, then zeros up to `width` (a multiple of 32) of them.
static void CopyRow(const uint8_t* from, int64_t elements, int64_t width, uint8_t* to) {
  for (int64_t i = 0; i < width; i += kPairDims) {
    const int64_t left = elements - i;
    const uint32_t mask = left >= kPairDims ? 0xffffffffu : left > 0 ? (1u << left) - 1 : 0;
    _mm512_storeu_si512(to + i * 2, _mm512_maskz_loadu_epi16(mask, from + i * 2));
  }
}

// The chunk's keys [begin, end): those that any row of the call sees. `slot` 0 or 1: which copy.
static void FindKeys(const AttendData& data, int64_t slot, int64_t begin, int64_t end,
                     KeyChunk* chunk) {
  const AttendArgs* args = data.args;
  const int64_t row_bytes = args->head_dim * 2;
  const int64_t width = data.steps * kPairDims;
  const bool in_place = args->block_size % kTileSide == 0 && args->head_dim % kPairDims == 0;
  chunk->tile_begin = begin / kTileSide;
  chunk->tile_end = (end + kTileSide - 1) / kTileSide;
  // Values are read 32 keys at a time, so the other tile of a pair is there too.
  for (int64_t tile = chunk->tile_begin / 2 * 2; tile < RoundUp(chunk->tile_end, 2); ++tile) {
    const int64_t first = tile * kTileSide;
    uint8_t* value_copy = data.copies + first * width * 2;
    uint8_t* key_copy = value_copy + (slot + 1) * kKeyChunk * width * 2;
    if (in_place && tile >= chunk->tile_begin && tile < chunk->tile_end) {
      chunk->keys[tile] = KeyRow(args, chunk->first + first);
      chunk->key_stride[tile] = row_bytes;
      if (first >= begin && first + kTileSide <= end) {
        chunk->values[tile] = chunk->keys[tile] + args->block_size * row_bytes;
        chunk->value_stride[tile] = row_bytes;
        continue;
      }
    }
    chunk->values[tile] = value_copy;
    chunk->value_stride[tile] = width * 2;
    if (!in_place) {
      chunk->keys[tile] = key_copy;
      chunk->key_stride[tile] = width * 2;
    }
    for (int64_t i = 0; i < kTileSide; ++i) {
      const bool seen = first + i >= begin && first + i < end;
      const uint8_t* row = seen ? KeyRow(args, chunk->first + first + i) : value_copy;
      const int64_t elements = seen ? args->head_dim : 0;
      if (!in_place) CopyRow(row, elements, width, key_copy + i * width * 2);
      CopyRow(seen ? row + args->block_size * row_bytes : row, elements, width,
              value_copy + i * width * 2);
    }
  }
}

}  // namespace
}  // namespace tandem::ops
