// AMX attention of at most 8 rows, as in decoding: the bytes of amx_attention_many.h's. Included
// after amx_attention_rows.h, by sources built for AMX; internal linkage.
//
// Scores are keys x queries: the keys as they are stored, and kWide (4 or 8) columns of queries. So
// nothing is transposed but the scores.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

constexpr int64_t kFewRows = 8;

// Tiles 0, 1: scores. 2: queries. 3, 7: keys, values. 4, 5: sums. 6: weights.
static void ConfigureForFewRows(int rows) {
  TileShapes shapes;
  for (int tile = 0; tile < 3; ++tile) shapes.SetTile(tile, 16, rows * 4);
  for (int tile = 3; tile < 8; ++tile) shapes.SetTile(tile, tile == 3 || tile == 7 ? 16 : rows);
  ConfigureTiles(shapes);
}

// As [steps, 2 (high, low), 16 dim pairs, kWide rows, 2] bf16.
template <int kWide>
static void StoreFewQueries(const AttendData& data) {
  for (int64_t step = 0; step < data.steps; ++step) {
    Vec parts[2][kTileSide];
    for (int64_t row = 0; row < kTileSide; ++row) {
      SplitQuery(data.args, row, step, &parts[0][row], &parts[1][row]);
    }
    for (int64_t part = 0; part < 2; ++part) {
      Vec* pairs = parts[part];
      Transpose(pairs);
      float* to = reinterpret_cast<float*>(data.queries) + (step * 2 + part) * kTileSide * kWide;
      for (int64_t i = 0; i < kTileSide; ++i) {
        if constexpr (kWide == 4) {
          _mm_storeu_ps(to + i * 4, _mm512_castps512_ps128(pairs[i]));
        } else {
          _mm256_storeu_ps(to + i * 8, _mm512_castps512_ps256(pairs[i]));
        }
      }
    }
  }
}

// As [kKeyTiles, 16 keys, kWide rows].
template <int kWide>
static void FewScores(const AttendData& data, const KeyChunk& chunk) {
  for (int64_t tile = chunk.tile_begin; tile < chunk.tile_end; tile += 2) {
    const bool two = tile + 1 < chunk.tile_end;
    const int64_t other = two ? tile + 1 : tile;
    ZeroTile<0>();
    ZeroTile<1>();
    for (int64_t step = 0; step < data.steps; ++step) {
      LoadTile<3>(chunk.keys[tile] + step * 64, chunk.key_stride[tile]);
      LoadTile<7>(chunk.keys[other] + step * 64, chunk.key_stride[other]);
      for (int64_t part = 0; part < 2; ++part) {  // high, low
        LoadTile<2>(data.queries + (step * 2 + part) * kTileSide * kWide * 4, kWide * 4);
        AddProductBf16<0, 3, 2>();
        AddProductBf16<1, 7, 2>();
      }
    }
    StoreTile<0>(data.scores + tile * kTileSide * kWide, kWide * 4);
    if (two) StoreTile<1>(data.scores + other * kTileSide * kWide, kWide * 4);
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

template <int kWide, bool kMasked>
static inline void WeighFew(const AttendData& data, const KeyChunk& chunk) {
  Vec scores[kWide][4];
  for (int64_t tile = 0; tile < kKeyTiles; ++tile) {
    LoadFewScores<kWide>(data.scores, tile, scores);
  }
  for (int64_t row = 0; row < data.args->rows; ++row) {
    const uint64_t seen = kMasked ? SeenKeys(data, row, chunk.first) : 0;
    float factor;
    if (WeighRow<kMasked>(data, row, scores[row], seen, data.weights + row * 64, kWide * 64,
                          &factor)) {
      RescaleSums(data, data.sums + row * kLanes, factor);
    }
  }
}

template <int kWide>
static void AddFewValues(const AttendData& data, const KeyChunk& chunk) {
  for (int64_t step = 0; step < data.steps; ++step) {
    float* sums = data.sums + step * 2 * kTileFloats;
    LoadTile<4>(sums, 64);
    LoadTile<5>(sums + kTileFloats, 64);
    for (int64_t half = chunk.tile_begin / 2; half < RoundUp(chunk.tile_end, 2) / 2; ++half) {
      const uint8_t* values = chunk.paired + (half * data.steps + step) * 2 * kTileBytes;
      LoadTile<6>(data.weights + half * kWide * 64, 64);
      LoadTile<3>(values, 64);
      AddProductBf16<4, 6, 3>();
      LoadTile<7>(values + kTileBytes, 64);
      AddProductBf16<5, 6, 7>();
    }
    StoreTile<4>(sums, 64);
    StoreTile<5>(sums + kTileFloats, 64);
  }
}

// Requires: args->rows <= kWide. Returns whether every output is finite.
template <int kWide>
static bool AttendFewRows(const AttendArgs* args) {
  AttendData data = MakeAttendData(args);
  ConfigureForFewRows(kWide);
  StoreFewQueries<kWide>(data);
  for (int64_t i = 0; i < data.steps * 2; ++i) {
    for (int64_t row = 0; row < kWide; ++row) {
      Store(data.sums + i * kTileFloats + row * kLanes, Zero());
    }
  }
  const int64_t begin = data.begin[0], end = data.end[args->rows - 1];
  for (int64_t first = begin / kKeyChunk * kKeyChunk; first < end; first += kKeyChunk) {
    KeyChunk chunk;
    chunk.first = first;
    chunk.paired = data.values;
    FindKeys(data, begin > first ? begin - first : 0,
             end - first < kKeyChunk ? end - first : kKeyChunk, &chunk);
    FewScores<kWide>(data, chunk);
    PairValues(data, chunk);
    if (data.begin[args->rows - 1] > first || data.end[0] < first + kKeyChunk) {
      WeighFew<kWide, true>(data, chunk);
    } else {
      WeighFew<kWide, false>(data, chunk);
    }
    AddFewValues<kWide>(data, chunk);
  }
  __mmask16 bad = 0;
  for (int64_t row = 0; row < args->rows; ++row) {
    bad |= FinishRow(data, row, data.sums + row * kLanes);
  }
  return bad == 0;
}

}  // namespace
}  // namespace tandem::ops
