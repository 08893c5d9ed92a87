// Queries, scores and weights of an AMX attention call of few rows, between memory of tiles and
// vectors. Included after amx_attention_rows.h and amx_attention_fetch.h, by sources built for AMX;
// internal linkage.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

// Of what is fetched, a share in the time of one row's weights.
constexpr int64_t kRow = 8;

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
    for (int64_t part = 0; part < (data.args->precise != 0 ? 2 : 1); ++part) {
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

// Of a call's first chunk.
template <int kWide>
static inline void FindFirstBases(const AttendData& data, const KeyChunk& chunk,
                                  const Vec (*scores)[4]) {
  Vec highest[kWide];
  for (int64_t row = 0; row < kWide; ++row) {
    Vec v[4] = {scores[row][0], scores[row][1], scores[row][2], scores[row][3]};
    HideUnseen(row < data.args->rows ? SeenKeys(data, row, chunk.first) : 0, v);
    highest[row] = HighestOf(v);
  }
  Vec lanes[2];  // 4 rows, four times over
  for (int64_t i = 0; i < 2; ++i) {
    Vec v[4];
    TransposeFour(highest + (kWide == 8 ? i * 4 : 0), v);
    Vec h = HighestOf(v);
    h = Max(h, _mm512_shuffle_f32x4(h, h, 0x4e));
    lanes[i] = Max(h, _mm512_shuffle_f32x4(h, h, 0xb1));
  }
  FirstBases(data, 0, FirstLanes(data.args->rows),
             _mm512_insertf32x4(lanes[0], _mm512_castps512_ps128(lanes[1]), 1));
}

// Weights of a chunk, [2, kWide rows, 32 keys]; rescales the sums so far where that is due.
template <int kWide, bool kMasked>
static inline void WeighFew(const AttendData& data, const KeyChunk& chunk, const float* stored,
                            bool first, KeyFetch* fetch) {
  Vec scores[kWide][4];
  for (int64_t tile = 0; tile < kKeyTiles; ++tile) LoadFewScores<kWide>(stored, tile, scores);
  if (first) FindFirstBases<kWide>(data, chunk, scores);
  for (int64_t row = 0; row < data.args->rows; ++row) {
    if constexpr (kMasked) HideUnseen(SeenKeys(data, row, chunk.first), scores[row]);
    const bool none = data.limit[row] < 0;  // so far: there are no sums
    float factor;
    const bool moves =
        WeighRow(data, row, scores[row], data.weights + row * 64, kWide * 64, &factor);
    if (moves && !none) RescaleSums(data, data.sums + row * kLanes, factor);
    fetch->Some(kRow);
  }
}

}  // namespace
}  // namespace tandem::ops
