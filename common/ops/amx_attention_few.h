// AMX attention of at most 8 rows a call, as in decoding: the bytes of amx_attention_many.h's.
// Included after amx_attention_rows.h and amx_attention_fetch.h, by sources built for AMX; internal
// linkage.
//
// Scores are keys x queries: the keys as they are stored, and kWide (4 or 8) columns of queries. So
// nothing is transposed but the scores. Of a span of keys first all scores are computed while its
// values are paired, then all weights, then the sums; meanwhile the next span's keys and values,
// of the same call or of the next, are fetched.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

constexpr int64_t kFewRows = 8;
// Shares of what is fetched: during two or four products, and one row's weights.
constexpr int64_t kProducts = 4;
constexpr int64_t kRow = 4;

// Tiles 0, 1: scores. 2: queries. 3, 7: keys, values. 4, 5: sums. 6: weights.
static void ConfigureForFewRows(int rows) {
  TileShapes shapes;
  for (int tile = 0; tile < 3; ++tile) shapes.SetTile(tile, 16, rows * 4);
  for (int tile = 3; tile < 8; ++tile) shapes.SetTile(tile, tile == 3 || tile == 7 ? 16 : rows);
  ConfigureTiles(shapes);
}

// Four rows of 16 pairs to 16 pairs of four rows.
static inline void TransposeRows(const Vec* rows, Vec* pairs) {
  Vec t[4];
  TransposeFour(rows, t);  // t[i], lane l: pair 4 l + i
  const Vec a = _mm512_shuffle_f32x4(t[0], t[1], 0x44), b = _mm512_shuffle_f32x4(t[2], t[3], 0x44);
  const Vec c = _mm512_shuffle_f32x4(t[0], t[1], 0xee), d = _mm512_shuffle_f32x4(t[2], t[3], 0xee);
  pairs[0] = _mm512_shuffle_f32x4(a, b, 0x88);
  pairs[1] = _mm512_shuffle_f32x4(a, b, 0xdd);
  pairs[2] = _mm512_shuffle_f32x4(c, d, 0x88);
  pairs[3] = _mm512_shuffle_f32x4(c, d, 0xdd);
}

// As [steps, 2 (high, low), 16 dim pairs, kWide rows, 2] bf16.
template <int kWide>
static void StoreFewQueries(const AttendData& data) {
  for (int64_t step = 0; step < data.steps; ++step) {
    Vec parts[2][kWide];
    for (int64_t row = 0; row < kWide; ++row) {
      parts[0][row] = parts[1][row] = Zero();
      if (row < data.args->rows) {
        SplitQuery(data.args, row, step, &parts[0][row], &parts[1][row]);
      }
    }
    for (int64_t part = 0; part < 2; ++part) {
      float* to = reinterpret_cast<float*>(data.queries) + (step * 2 + part) * kTileSide * kWide;
      for (int64_t four = 0; four < kWide; four += 4) {
        Vec pairs[4];
        TransposeRows(parts[part] + four, pairs);
        for (int64_t i = 0; i < 4; ++i) {
          if constexpr (kWide == 4) {
            Store(to + i * kLanes, pairs[i]);
          } else {
            float* rows = to + i * 4 * kWide + four;
            _mm_storeu_ps(rows, _mm512_castps512_ps128(pairs[i]));
            _mm_storeu_ps(rows + kWide, _mm512_extractf32x4_ps(pairs[i], 1));
            _mm_storeu_ps(rows + kWide * 2, _mm512_extractf32x4_ps(pairs[i], 2));
            _mm_storeu_ps(rows + kWide * 3, _mm512_extractf32x4_ps(pairs[i], 3));
          }
        }
      }
    }
  }
}

// Of a half of the chunk's keys, as [2 key tiles, 16 keys, kWide rows].
template <int kWide>
static inline void FewScores(const AttendData& data, const KeyChunk& chunk, int64_t half,
                             float* scores, KeyFetch* fetch) {
  const int64_t first = half * 2;
  const bool one = first >= chunk.tile_begin, two = first + 1 < chunk.tile_end;
  const uint8_t* keys = chunk.keys[one ? first : first + 1];
  const uint8_t* others = chunk.keys[two ? first + 1 : first];
  constexpr int64_t kStride = kWide * 4;
  ZeroTile<0>();
  ZeroTile<1>();
  for (int64_t step = 0; step < data.steps; ++step) {
    LoadTile<3>(keys + step * 64, chunk.stride);
    if (one && two) LoadTile<7>(others + step * 64, chunk.stride);
    for (int64_t part = 0; part < 2; ++part) {  // high, low
      LoadTile<2>(data.queries + (step * 2 + part) * kTileSide * kStride, kStride);
      AddProductBf16<0, 3, 2>();
      if (one && two) AddProductBf16<1, 7, 2>();
      fetch->Some(kProducts);
    }
  }
  PairHalf(data, chunk, half, [&] { fetch->Some(1); });
  StoreTile<0>(scores + (one ? 0 : kTileSide * kWide), kStride);
  if (one && two) StoreTile<1>(scores + kTileSide * kWide, kStride);
}

// The scores of each row with a key tile's 16 keys: [kWide rows][4 key tiles].
template <int kWide>
static inline void LoadFewScores(const float* scores, int64_t tile, Vec (*rows)[4]) {
  Vec v[kWide], r[kWide];
  for (int i = 0; i < kWide; ++i) v[i] = Load(scores + (tile * kWide + i) * kLanes);
  for (int i = 0; i < kWide; i += 4) TransposeFour(v + i, r + i);
  if constexpr (kWide == 4) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (int i = 0; i < 4; ++i) rows[i][tile] = _mm512_permutexvar_ps(order, r[i]);
  } else {
    const __m512i low = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 16, 24, 17, 25, 18, 26, 19, 27);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(4));
    for (int i = 0; i < 4; ++i) {
      rows[i][tile] = _mm512_permutex2var_ps(r[i], low, r[i + 4]);
      rows[i + 4][tile] = _mm512_permutex2var_ps(r[i], high, r[i + 4]);
    }
  }
}

// Weights of a chunk, [2, kWide rows, 32 keys]. Returns whether sums so far are to be rescaled, and
// stores each row's factor.
template <int kWide, bool kMasked>
static inline bool WeighFew(const AttendData& data, const KeyChunk& chunk, const float* stored,
                            uint8_t* weights, KeyFetch* fetch) {
  Vec scores[kWide][4];
  for (int64_t tile = 0; tile < kKeyTiles; ++tile) LoadFewScores<kWide>(stored, tile, scores);
  bool moves = false;
  for (int64_t row = 0; row < data.args->rows; ++row) {
    const uint64_t seen = kMasked ? SeenKeys(data, row, chunk.first) : 0;
    const bool none = data.limit[row] < 0;  // so far: sums are zero
    data.rescale[row] = 1;
    if (WeighRow<kMasked>(data, row, scores[row], seen, weights + row * 64, kWide * 64,
                          data.rescale + row)) {
      if (!none) moves = true;
    }
    fetch->Some(kRow);
  }
  return moves;
}

template <int kWide>
static void AddFewValues(const AttendData& data, const KeyChunk& chunk, bool zero,
                         KeyFetch* fetch) {
  for (int64_t step = 0; step < data.steps; ++step) {
    float* sums = data.sums + step * 2 * kTileFloats;
    if (zero) {
      ZeroTile<4>();
      ZeroTile<5>();
    } else {
      LoadTile<4>(sums, 64);
      LoadTile<5>(sums + kTileFloats, 64);
    }
    for (int64_t half = chunk.tile_begin / 2; half < RoundUp(chunk.tile_end, 2) / 2; ++half) {
      const uint8_t* values = chunk.paired + (half * data.steps + step) * 2 * kTileBytes;
      LoadTile<6>(data.weights + half * kWide * 64, 64);
      LoadTile<3>(values, 64);
      AddProductBf16<4, 6, 3>();
      LoadTile<7>(values + kTileBytes, 64);
      AddProductBf16<5, 6, 7>();
      fetch->Some(kProducts);
    }
    StoreTile<4>(sums, 64);
    StoreTile<5>(sums + kTileFloats, 64);
  }
}

template <int kWide>
static void WorkOnChunk(const AttendData& data, KeyChunk* chunk, bool first, KeyFetch* fetch) {
  chunk->paired = data.values;
  CopyKeys(data, chunk, data.copies);
  for (int64_t half = chunk->tile_begin / 2; half < RoundUp(chunk->tile_end, 2) / 2; ++half) {
    FewScores<kWide>(data, *chunk, half, data.scores + half * 2 * kTileSide * kWide, fetch);
  }
  const int64_t last = data.args->rows - 1;
  const bool masked = data.begin[last] > chunk->first || data.end[0] < chunk->first + kKeyChunk;
  const bool moves = masked
                         ? WeighFew<kWide, true>(data, *chunk, data.scores, data.weights, fetch)
                         : WeighFew<kWide, false>(data, *chunk, data.scores, data.weights, fetch);
  for (int64_t row = 0; moves && row <= last; ++row) {
    if (data.rescale[row] != 1.0f) RescaleSums(data, data.sums + row * kLanes, data.rescale[row]);
  }
  AddFewValues<kWide>(data, *chunk, first, fetch);
}

static int64_t FetchWeights(const AttendData& data, const KeyChunk& chunk) {
  const int64_t halves = RoundUp(chunk.tile_end, 2) / 2 - chunk.tile_begin / 2;
  return halves * (kTileSide + data.steps * 3 * kProducts) + data.args->rows * kRow;
}

// Requires: rows <= kWide in each call. Bit i of the result: an output of call i is not finite.
template <int kWide>
static uint64_t AttendFewRows(const AttendArgs* calls, int64_t count, const AttendArgs* after) {
  ConfigureForFewRows(kWide);
  uint64_t bad = 0;
  KeyChunk chunks[2];
  int64_t slot = 0;
  FindKeys(calls, FirstKey(calls) / kKeyChunk * kKeyChunk, &chunks[0]);
  for (int64_t call = 0; call < count; ++call) {
    const AttendArgs* args = calls + call;
    const AttendData data = MakeAttendData(args);
    StoreFewQueries<kWide>(data);
    const int64_t end = EndKey(args);
    bool first = true;
    for (bool more = true; more; slot = 1 - slot) {
      KeyChunk* chunk = &chunks[slot];
      KeyChunk* next = &chunks[1 - slot];
      more = chunk->first + kKeyChunk < end;
      const AttendArgs* of_next = more ? args : call + 1 < count ? args + 1 : after;
      if (of_next != nullptr) {
        FindKeys(of_next,
                 more ? chunk->first + kKeyChunk : FirstKey(of_next) / kKeyChunk * kKeyChunk, next);
      }
      KeyFetch fetch(of_next, *next, FetchWeights(data, *chunk));
      WorkOnChunk<kWide>(data, chunk, first, &fetch);
      first = false;
    }
    __mmask16 lanes = 0;
    for (int64_t row = 0; row < args->rows; ++row) {
      lanes |= FinishRow(data, row, data.sums + row * kLanes);
    }
    if (lanes != 0) bad |= uint64_t{1} << call;
  }
  return bad;
}

}  // namespace
}  // namespace tandem::ops
