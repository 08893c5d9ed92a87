// AMX attention of at most 8 rows, as in decoding: the bytes of amx_attention_many.h's. Included
// after amx_attention_data.h, by sources built for AMX; internal linkage.
//
// The 16 columns of scores would mostly be idle, so kWide (4 or 8) columns of several keys share a
// vector. Products with values are taken the other way around, weights [rows, keys] x values [keys,
// dims]: a tile product does the same additions, faster with few rows, and values need no
// transposing, only the keys of a pair side by side.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

constexpr int64_t kFewRows = 8;

// Tiles 0, 1: scores. 2: queries. 3: keys, values. 4, 5: sums. 6, 7: weights.
static void ConfigureForFewRows(int rows) {
  TileShapes shapes;
  for (int tile = 0; tile < 8; ++tile) shapes.SetTile(tile, tile < 4 ? 16 : rows);
  ConfigureTiles(shapes);
}

// Lane = key within the vector * kWide + row.
template <int kWide>
struct FewRows {
  static constexpr int64_t kKeys = kLanes / kWide;  // of a vector
  Vec max;                                          // the same for each key
  Vec total;                                        // the same for each key
  __m512i begin;
  __m512i end;
  bool grows;
  Vec rescale;
};

// The first kWide floats of one of kKeys rows of scores after another.
template <int kWide>
static inline Vec LoadFew(const float* scores) {
  if constexpr (kWide == 8) {
    const __m256 a = _mm256_loadu_ps(scores), b = _mm256_loadu_ps(scores + kTileSide);
    return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
  } else {
    Vec v = _mm512_castps128_ps512(_mm_loadu_ps(scores));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(scores + kTileSide), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(scores + 2 * kTileSide), 2);
    return _mm512_insertf32x4(v, _mm_loadu_ps(scores + 3 * kTileSide), 3);
  }
}
// Each key's lanes with those of the key beside it: 0 with 1, 2 with 3.
template <int kWide>
static inline __m512i SwapPair(__m512i v) {
  return _mm512_shuffle_i32x4(v, v, kWide == 8 ? 0x4e : 0xb1);
}
template <int kWide>
static inline Vec SwapPair(Vec v) {
  return _mm512_shuffle_f32x4(v, v, kWide == 8 ? 0x4e : 0xb1);
}
static inline Vec SwapHalves(Vec v) { return _mm512_shuffle_f32x4(v, v, 0x4e); }

static void FewScores(const AttendData& data, const KeyChunk& chunk) {
  for (int64_t tile = chunk.tile_begin; tile < chunk.tile_end; tile += 2) {
    const bool two = tile + 1 < chunk.tile_end;
    const int64_t other = two ? tile + 1 : tile;
    ZeroTile<0>();
    ZeroTile<1>();
    for (int64_t step = 0; step < data.steps; ++step) {
      for (int64_t part = 0; part < 2; ++part) {  // high, low
        LoadTile<2>(data.queries + (step * 2 + part) * kTileBytes, 64);
        LoadTile<3>(chunk.keys[tile] + step * 64, chunk.key_stride[tile]);
        AddProductBf16<0, 3, 2>();
        if (!two) continue;
        LoadTile<3>(chunk.keys[other] + step * 64, chunk.key_stride[other]);
        AddProductBf16<1, 3, 2>();
      }
    }
    StoreTile<0>(data.scores + tile * kTileFloats, 64);
    if (two) StoreTile<1>(data.scores + other * kTileFloats, 64);
  }
}

// Values as [2, steps, 2, 16 key pairs, 16 dims, 2]: of 32 dims the first tile holds those whose
// number has no bit 2, the second the others.
static void PairValues(const AttendData& data, const KeyChunk& chunk) {
  for (int64_t tile = chunk.tile_begin / 2 * 2; tile < RoundUp(chunk.tile_end, 2); ++tile) {
    const uint8_t* from = chunk.values[tile];
    const int64_t stride = chunk.value_stride[tile];
    uint8_t* to = data.values + tile / 2 * data.steps * 2 * kTileBytes + tile % 2 * 8 * 64;
    for (int64_t pair = 0; pair < kTileSide / 2; ++pair) {
      for (int64_t step = 0; step < data.steps; ++step) {
        const __m512i even = _mm512_loadu_si512(from + step * 64);
        const __m512i odd = _mm512_loadu_si512(from + stride + step * 64);
        uint8_t* out = to + step * 2 * kTileBytes;
        _mm512_storeu_si512(out, _mm512_unpacklo_epi16(even, odd));
        _mm512_storeu_si512(out + kTileBytes, _mm512_unpackhi_epi16(even, odd));
      }
      from += 2 * stride;
      to += 64;
    }
  }
}

template <int kWide>
static inline Vec FewScoresAt(const AttendData& data, const FewRows<kWide>& rows, int64_t key,
                              bool masked) {
  const Vec score = LoadFew<kWide>(data.scores + key * kTileSide);
  if (!masked) return score;
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i index = _mm512_add_epi32(_mm512_srli_epi32(lane, kWide == 8 ? 3 : 2),
                                         _mm512_set1_epi32(static_cast<int>(key)));
  const __mmask16 seen =
      _mm512_mask_cmplt_epi32_mask(_mm512_cmple_epi32_mask(rows.begin, index), index, rows.end);
  return _mm512_mask_mov_ps(Set(-__builtin_inff()), seen, score);
}

template <int kWide>
static void UpdateFewMax(const AttendData& data, const KeyChunk& chunk, bool masked,
                         FewRows<kWide>* rows) {
  Vec highest = Set(-__builtin_inff());
  for (int64_t key = chunk.tile_begin * kTileSide; key < chunk.tile_end * kTileSide;
       key += rows->kKeys) {
    highest = Max(FewScoresAt(data, *rows, key, masked), highest);
  }
  highest = Max(highest, SwapPair<kWide>(highest));
  if constexpr (kWide == 4) highest = Max(highest, SwapHalves(highest));
  const __mmask16 grows = _mm512_cmp_ps_mask(highest, Add(rows->max, Set(kMaxGrowth)), _CMP_GT_OQ);
  rows->grows = grows != 0;
  if (grows == 0) return;
  const Vec moved = _mm512_mask_mov_ps(rows->max, grows, highest);
  rows->rescale = _mm512_mask_mov_ps(Set(1.0f), grows, Exp2(Sub(rows->max, moved)));
  rows->total = Mul(rows->total, rows->rescale);
  rows->max = moved;
}

// A vector's weights as pairs of bf16: in the lanes of a pair's first key the upper halves, in
// those of its second the rounded rest.
template <int kWide>
static inline Vec PairWeights(Vec weights) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  const __m512i bits = _mm512_castps_si512(weights);
  const __m512i high = _mm512_and_si512(bits, upper);
  const __m512i low = _mm512_add_epi32(_mm512_castps_si512(Sub(weights, _mm512_castsi512_ps(high))),
                                       _mm512_set1_epi32(0x8000));
  constexpr int kFirstAndSecondOrThird = 0xea;
  const __m512i highs = _mm512_or_si512(SwapPair<kWide>(high), _mm512_srli_epi32(bits, 16));
  const __m512i lows = _mm512_ternarylogic_epi32(
      upper, low, _mm512_srli_epi32(SwapPair<kWide>(low), 16), kFirstAndSecondOrThird);
  constexpr __mmask16 kSecond = kWide == 8 ? 0xff00 : 0xf0f0;
  return _mm512_castsi512_ps(_mm512_mask_mov_epi32(highs, kSecond, lows));
}

// 16 pairs of keys, [16 / pairs of a vector] vectors, as [2 (high, low), kWide rows, 16 pairs].
template <int kWide>
static inline void StorePairs(Vec* pairs, uint8_t* weights) {
  float* to = reinterpret_cast<float*>(weights);
  if constexpr (kWide == 8) {
    Transpose(pairs);
    for (int i = 0; i < 16; ++i) Store(to + i * kLanes, pairs[i]);
  } else {
    const __m512i high =
        _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 16, 24, 17, 25, 18, 26, 19, 27);
    const __m512i low = _mm512_add_epi32(high, _mm512_set1_epi32(4));
    Vec rows[2][4];  // of 8 pairs: lane = pair % 2 * 8 + low * 4 + pair / 2
    for (int i = 0; i < 2; ++i) {
      const Vec* v = pairs + 4 * i;
      const Vec a = _mm512_unpacklo_ps(v[0], v[1]), b = _mm512_unpackhi_ps(v[0], v[1]);
      const Vec c = _mm512_unpacklo_ps(v[2], v[3]), d = _mm512_unpackhi_ps(v[2], v[3]);
      rows[i][0] = _mm512_shuffle_ps(a, c, 0x44);
      rows[i][1] = _mm512_shuffle_ps(a, c, 0xee);
      rows[i][2] = _mm512_shuffle_ps(b, d, 0x44);
      rows[i][3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    for (int r = 0; r < 4; ++r) {
      Store(to + r * kLanes, _mm512_permutex2var_ps(rows[0][r], high, rows[1][r]));
      Store(to + (4 + r) * kLanes, _mm512_permutex2var_ps(rows[0][r], low, rows[1][r]));
    }
  }
}

template <int kWide>
static void WeighFew(const AttendData& data, const KeyChunk& chunk, bool masked,
                     FewRows<kWide>* rows) {
  constexpr int64_t kKeys = FewRows<kWide>::kKeys;
  Vec max = rows->max;
  const __mmask16 none = _mm512_cmp_ps_mask(max, Set(-__builtin_inff()), _CMP_EQ_OQ);
  max = _mm512_mask_mov_ps(max, none, Zero());
  // Keys 4 n + i are added up one after the other for each i, as many rows do.
  Vec sum[2] = {Zero(), Zero()};
  for (int64_t half = chunk.tile_begin / 2; half < RoundUp(chunk.tile_end, 2) / 2; ++half) {
    Vec pairs[32 / kKeys];
    for (int64_t i = 0; i < 32 / kKeys; ++i) {
      const int64_t key = half * 32 + i * kKeys;
      const int64_t tile = key / kTileSide;
      Vec weights = Zero();
      if (tile >= chunk.tile_begin && tile < chunk.tile_end) {
        weights = Exp2(Sub(FewScoresAt(data, *rows, key, masked), max));
      }
      Vec& of = sum[kWide == 8 ? i % 2 : 0];
      of = Add(of, weights);
      pairs[i] = PairWeights<kWide>(weights);
    }
    StorePairs<kWide>(pairs, data.weights + half * 2 * kWide * 64);
  }
  if constexpr (kWide == 8) {
    sum[0] = Add(Add(sum[0], SwapPair<8>(sum[0])), Add(sum[1], SwapPair<8>(sum[1])));
  } else {
    sum[0] = Add(sum[0], SwapPair<4>(sum[0]));
    sum[0] = Add(sum[0], SwapHalves(sum[0]));
  }
  rows->total = Add(rows->total, sum[0]);
}

// Sums are [steps * 2, kWide, 16 dims].
template <int kWide>
static void RescaleFew(const AttendData& data, const FewRows<kWide>& rows) {
  float factor[kLanes];
  Store(factor, rows.rescale);
  for (int64_t i = 0; i < data.steps * 2 * kWide; ++i) {
    float* sums = data.sums + i * kLanes;
    Store(sums, WithoutDenormals(Mul(Load(sums), Set(factor[i % kWide]))));
  }
}

template <int kWide>
static void AddFewValues(const AttendData& data, const KeyChunk& chunk) {
  for (int64_t step = 0; step < data.steps; ++step) {
    float* sums = data.sums + step * 2 * kWide * kLanes;
    LoadTile<4>(sums, 64);
    LoadTile<5>(sums + kWide * kLanes, 64);
    for (int64_t half = chunk.tile_begin / 2; half < RoundUp(chunk.tile_end, 2) / 2; ++half) {
      const uint8_t* weights = data.weights + half * 2 * kWide * 64;
      const uint8_t* values = data.values + (half * data.steps + step) * 2 * kTileBytes;
      LoadTile<6>(weights, 64);
      LoadTile<7>(weights + kWide * 64, 64);
      LoadTile<3>(values, 64);
      AddProductBf16<4, 6, 3>();
      AddProductBf16<4, 7, 3>();
      LoadTile<2>(values + kTileBytes, 64);
      AddProductBf16<5, 6, 2>();
      AddProductBf16<5, 7, 2>();
    }
    StoreTile<4>(sums, 64);
    StoreTile<5>(sums + kWide * kLanes, 64);
  }
}

template <int kWide>
static bool FinishFewRows(const AttendData& data, const FewRows<kWide>& rows) {
  const AttendArgs* args = data.args;
  const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
  float total[kLanes];
  Store(total, rows.total);
  __mmask16 bad = 0;
  for (int64_t row = 0; row < args->rows; ++row) {
    for (int64_t step = 0; step < data.steps; ++step) {
      const float* sums = data.sums + (step * 2 * kWide + row) * kLanes;
      const Vec a = Load(sums), b = Load(sums + kWide * kLanes);
      const Vec out[2] = {_mm512_permutex2var_ps(a, first, b),
                          _mm512_permutex2var_ps(a, second, b)};
      for (int64_t part = 0; part < 2; ++part) {
        const int64_t dim = step * kPairDims + part * kLanes;
        const Vec v = Div(Add(out[part], Zero()), Set(total[row]));
        bad |= StoreDims(args->out[row] + dim, v, args->head_dim - dim);
      }
    }
  }
  return bad == 0;
}

// Requires: args->rows <= kWide. Returns whether every output is finite.
template <int kWide>
static bool AttendFewRows(const AttendArgs* args) {
  const AttendData data = MakeAttendData(args);
  ConfigureForFewRows(kWide);
  SplitQueries(data);
  FewRows<kWide> rows;
  rows.max = Set(-__builtin_inff());
  rows.total = Zero();
  const int64_t begin = data.begin[0], end = data.end[args->rows - 1];
  for (int64_t first = begin / kKeyChunk * kKeyChunk; first < end; first += kKeyChunk) {
    KeyChunk chunk;
    chunk.first = first;
    FindKeys(data, 0, begin > first ? begin - first : 0,
             end - first < kKeyChunk ? end - first : kKeyChunk, &chunk);
    FewScores(data, chunk);
    PairValues(data, chunk);
    const __m512i offset = _mm512_set1_epi32(static_cast<int>(first));
    const auto repeat = [&](const int32_t* of_rows) {
      const __m512i v = _mm512_loadu_si512(of_rows);
      const __m512i each =
          kWide == 8 ? _mm512_shuffle_i32x4(v, v, 0x44) : _mm512_shuffle_i32x4(v, v, 0x00);
      return _mm512_sub_epi32(each, offset);
    };
    rows.begin = repeat(data.begin);
    rows.end = repeat(data.end);
    const bool masked = data.begin[args->rows - 1] > first || data.end[0] < first + kKeyChunk;
    UpdateFewMax(data, chunk, masked, &rows);
    if (rows.grows) RescaleFew(data, rows);
    WeighFew(data, chunk, masked, &rows);
    AddFewValues<kWide>(data, chunk);
  }
  return FinishFewRows(data, rows);
}

}  // namespace
}  // namespace tandem::ops
