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

constexpr float kMaxWeight = 256.0f;  // a larger one moves what exponents are relative to

// Query rows go in tiles of 16; rows past the last hold zero queries. Dims are kept in the order
// that PairValues gives: of 32 dims first those whose number has no bit 2.
struct AttendData {
  const AttendArgs* args;
  int64_t query_tiles;
  int64_t steps;     // head_dim in whole 32s
  int32_t* begin;    // [rows] first key that the row sees
  int32_t* end;      // [rows] past the last
  float* base;       // [rows] what exponents are relative to
  float* limit;      // [rows] weights above it move the base: all (-1) while the row has seen none
  float* totals;     // [rows, 16] of the weights so far, by key % 16
  float* sums;       // [query_tiles, 2 * steps, 16 rows, 16 dims] weighted values so far
  uint8_t* queries;  // [query_tiles, steps, 2 (high, low), 16 rows, 32 dims] bf16
  uint8_t* keys;     // [kKeyTiles, steps, 16 dim pairs, 16 keys, 2] bf16
  uint8_t* values;   // [2 chunks, 2, 2 * steps, 16 key pairs, 16 dims, 2] bf16
  uint8_t* copies;   // [2 chunks, 2 (keys, values), kKeyChunk, steps * 32] bf16
  float* scores;     // [2 items, kKeyTiles, 16 rows, 16 keys]
  uint8_t* weights;  // [2 items, 2, 16 rows, 32 keys] bf16
  float* rescale;    // [2 items, 16 rows] factor of `sums` before an item's values are added
};

// 64 keys and their values, those of a key tile where they lie or in a copy.
struct KeyChunk {
  int64_t first;  // position
  int64_t begin;  // keys that any row of the call sees
  int64_t end;
  int64_t tile_begin;  // key tiles that hold them
  int64_t tile_end;
  const uint8_t* keys[kKeyTiles];
  const uint8_t* values[kKeyTiles];
  int64_t stride;       // bytes from a key or value to the next
  uint8_t* transposed;  // keys as [kKeyTiles, steps, 16 dim pairs, 16 keys, 2] bf16
  uint8_t* paired;      // values as [2, 2 * steps, 16 key pairs, 16 dims, 2] bf16
  float* scores;        // of few rows
};

// Scratch for calls at the same time: each has its own rows, sums and queries.
static AttendData MakeAttendData(const AttendArgs* args, int64_t slot = 0, int64_t slots = 1) {
  AttendData data;
  data.args = args;
  data.query_tiles = (args->rows + kTileSide - 1) / kTileSide;
  data.steps = (args->head_dim + kPairDims - 1) / kPairDims;
  uint8_t* next = reinterpret_cast<uint8_t*>(args->scratch);
  const auto take = [&](int64_t bytes) {
    uint8_t* taken = next;
    next += bytes;
    return taken;
  };
  const auto take_floats = [&](int64_t count) { return reinterpret_cast<float*>(take(count * 4)); };
  const int64_t lanes = data.query_tiles * kTileSide;
  const int64_t sums = lanes * data.steps * kPairDims;
  next += slot * (lanes * (4 + kTileSide) + sums * 2) * 4;
  data.begin = reinterpret_cast<int32_t*>(take(lanes * 4));
  data.end = reinterpret_cast<int32_t*>(take(lanes * 4));
  data.base = take_floats(lanes);
  data.limit = take_floats(lanes);
  data.totals = take_floats(lanes * kTileSide);
  data.sums = take_floats(sums);
  data.queries = take(sums * 4);
  next += (slots - 1 - slot) * (lanes * (4 + kTileSide) + sums * 2) * 4;
  data.keys = take(kKeyTiles * data.steps * kTileBytes);
  data.values = take(2 * 4 * data.steps * kTileBytes);
  data.copies = take(2 * 2 * kKeyChunk * data.steps * kPairDims * 2);
  data.scores = take_floats(2 * kKeyTiles * kTileFloats);
  data.weights = take(2 * 2 * kTileBytes);
  data.rescale = take_floats(2 * kTileSide);
  for (int64_t row = 0; row < args->rows; ++row) {
    data.begin[row] = static_cast<int32_t>(FirstKeyOf(*args, row));
    data.end[row] = static_cast<int32_t>(EndKeyOf(*args, row));
    data.base[row] = 0;
    data.limit[row] = -1;
    Store(data.totals + row * kLanes, Zero());
  }
  return data;
}

// A constant where the caller is built for a number of steps; 0: any.
template <int kSteps>
static inline int64_t StepsOf(const AttendData& data) {
  return kSteps > 0 ? kSteps : data.steps;
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

// 32 dims of a row's query, times scale times log2(e) (scores are exponents of two), as the sum of
// two bf16; the low one only where queries are to be precise.
static inline void SplitQuery(const AttendArgs* args, int64_t row, int64_t step, Vec* high,
                              Vec* low) {
  const Vec scale = Set(args->scale * 1.44269504f);
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
  const __m512i rounded = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(part[1], part[0]));
  *high = _mm512_castsi512_ps(rounded);
  if (args->precise == 0) return;
  const Vec rest[2] = {Sub(part[0], Bf16ToVec(_mm512_castsi512_si256(rounded))),
                       Sub(part[1], Bf16ToVec(_mm512_extracti64x4_epi64(rounded, 1)))};
  *low = reinterpret_cast<Vec>(_mm512_cvtne2ps_pbh(rest[1], rest[0]));
}

// A call's keys: from the first that any row sees to past the last.
static int64_t FirstKey(const AttendArgs* args) { return FirstKeyOf(*args, 0); }
static int64_t EndKey(const AttendArgs* args) { return EndKeyOf(*args, args->rows - 1); }

static const uint8_t* KeyRow(const AttendArgs* args, int64_t position) {
  // 32 bits: a division of 64 takes twice as long.
  const uint32_t at = static_cast<uint32_t>(position);
  const uint32_t block_size = static_cast<uint32_t>(args->block_size);
  return args->kv + args->block_table[at / block_size] * args->block_bytes +
         at % block_size * args->head_dim * 2;
}

// The 16 keys of a tile lie one after another.
static bool WholeTiles(const AttendArgs* args) { return args->block_size % kTileSide == 0; }

// The chunk at `first` and where its keys are stored; of blocks without whole tiles nowhere yet.
static inline void FindKeys(const AttendArgs* args, int64_t first, KeyChunk* chunk) {
  const int64_t begin = FirstKey(args) - first, end = EndKey(args) - first;
  chunk->first = first;
  chunk->begin = begin > 0 ? begin : 0;
  chunk->end = end < kKeyChunk ? end : kKeyChunk;
  chunk->tile_begin = chunk->begin / kTileSide;
  chunk->tile_end = (chunk->end + kTileSide - 1) / kTileSide;
  chunk->stride = args->head_dim * 2;
  for (int64_t tile = chunk->tile_begin; tile < chunk->tile_end; ++tile) {
    const uint8_t* keys = WholeTiles(args) ? KeyRow(args, first + tile * kTileSide) : nullptr;
    chunk->keys[tile] = keys;
    chunk->values[tile] = WholeTiles(args) ? keys + args->block_size * chunk->stride : nullptr;
  }
}

// `elements` bf16, then zeros up to `width` (a multiple of 32) of them.
static void CopyRow(const uint8_t* from, int64_t elements, int64_t width, uint8_t* to) {
  for (int64_t i = 0; i < width; i += kPairDims) {
    const int64_t left = elements - i;
    const uint32_t mask = left >= kPairDims ? 0xffffffffu : left > 0 ? (1u << left) - 1 : 0;
    _mm512_storeu_si512(to + i * 2, _mm512_maskz_loadu_epi16(mask, from + i * 2));
  }
}

// Copies keys and values to [2, kKeyChunk, steps * 32] where tiles cannot be loaded in place.
static void CopyKeys(const AttendData& data, KeyChunk* chunk, uint8_t* copies) {
  const AttendArgs* args = data.args;
  if (WholeTiles(args) && args->head_dim % kPairDims == 0) return;
  const int64_t width = data.steps * kPairDims;
  const int64_t to_values = kKeyChunk * width * 2;
  for (int64_t tile = chunk->tile_begin; tile < chunk->tile_end; ++tile) {
    const uint8_t* row = chunk->keys[tile];
    for (int64_t i = tile * kTileSide; i < (tile + 1) * kTileSide; ++i) {
      uint8_t* copy = copies + i * width * 2;
      const int64_t elements = i >= chunk->begin && i < chunk->end ? args->head_dim : 0;
      if (!WholeTiles(args) && elements > 0) row = KeyRow(args, chunk->first + i);
      CopyRow(row, elements, width, copy);
      CopyRow(row + args->block_size * args->head_dim * 2, elements, width, copy + to_values);
      row += args->head_dim * 2;
    }
    chunk->keys[tile] = copies + tile * kTileSide * width * 2;
    chunk->values[tile] = chunk->keys[tile] + to_values;
  }
  chunk->stride = width * 2;
}

}  // namespace
}  // namespace tandem::ops
