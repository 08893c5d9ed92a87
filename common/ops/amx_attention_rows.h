// What AMX attention does to one row with one chunk of keys: scores to weights, and sums to the
// output. The same code whatever rows share the call, hence the same bytes. Included after
// amx_attention_data.h and amx_exp2.h, by sources built for AMX; internal linkage.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

// A tile product would take a denormal sum for zero; so that all do, whatever follows.
static inline Vec WithoutDenormals(Vec v) {
  const Vec smallest = Set(1.17549435e-38f);
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(_mm512_abs_ps(v), smallest, _CMP_NLT_UQ), v);
}

// Moves the row's base to the highest of its seen scores, if it sees a key. Returns the factor of
// its sums so far.
static __attribute__((noinline)) float MoveBase(const AttendData& data, int64_t row, Vec highest) {
  highest = Max(highest, _mm512_shuffle_f32x4(highest, highest, 0x4e));
  highest = Max(highest, _mm512_shuffle_f32x4(highest, highest, 0xb1));
  highest = Max(highest, _mm512_permute_ps(highest, 0x4e));
  highest = Max(highest, _mm512_permute_ps(highest, 0xb1));
  const float moved = _mm512_cvtss_f32(highest);
  if (moved == -__builtin_inff()) return 1;
  float factor = 0;  // without a key so far, sums are zero
  if (data.limit[row] > 0) {
    factor = _mm512_cvtss_f32(Exp2(Sub(Set(data.base[row]), Set(moved))));
  }
  data.base[row] = moved;
  data.limit[row] = kMaxWeight;
  float* totals = data.totals + row * kLanes;
  Store(totals, Mul(Load(totals), Set(factor)));
  return factor;
}

static inline void RescaleSums(const AttendData& data, float* sums, float factor) {
  for (int64_t i = 0; i < data.steps * 2; ++i) {
    float* of_dims = sums + i * kTileFloats;
    Store(of_dims, WithoutDenormals(Mul(Load(of_dims), Set(factor))));
  }
}

// Bit i: the row sees key i of the chunk.
static inline uint64_t SeenKeys(const AttendData& data, int64_t row, int64_t first) {
  const int64_t begin = data.begin[row] - first, end = data.end[row] - first;
  if (end <= 0 || begin >= kKeyChunk) return 0;
  const uint64_t before_end = ~uint64_t{0} >> (end < kKeyChunk ? kKeyChunk - end : 0);
  return before_end & (~uint64_t{0} << (begin > 0 ? begin : 0));
}

// The scores of keys that a row does not see become -infinity.
static inline void HideUnseen(uint64_t seen, Vec* scores) {
  const Vec none = Set(-__builtin_inff());
  for (int i = 0; i < 4; ++i) {
    scores[i] = _mm512_mask_mov_ps(none, static_cast<__mmask16>(seen >> 16 * i), scores[i]);
  }
}

static inline Vec HighestOf(const Vec* scores) {
  return Max(Max(scores[0], scores[1]), Max(scores[2], scores[3]));
}

// Rows of 16 from `row` on that have seen no key so far.
static inline __mmask16 FreshRows(const AttendData& data, int64_t row) {
  const int64_t left = data.args->rows - row;
  const __mmask16 rows = left >= kLanes ? 0xffff : FirstLanes(left);
  return _mm512_mask_cmp_ps_mask(rows, Load(data.limit + row), Zero(), _CMP_LT_OQ);
}

// MoveBase for the `fresh` of 16 rows at once, whose highest seen scores are the lanes of
// `highest`.
static inline void FirstBases(const AttendData& data, int64_t row, __mmask16 fresh, Vec highest) {
  fresh = _mm512_mask_cmp_ps_mask(fresh, highest, Set(-__builtin_inff()), _CMP_GT_OQ);
  _mm512_mask_storeu_ps(data.base + row, fresh, highest);
  _mm512_mask_storeu_ps(data.limit + row, fresh, Set(kMaxWeight));
}

// Scores of 64 keys (of unseen ones -infinity) to weights: two halves of 32 bf16, `half_bytes`
// apart, in which key i + 16 follows key i. Stores nothing and returns false where they are too
// large for the row's base, unless kAlways.
template <bool kAlways>
static inline __attribute__((always_inline)) bool WeighWithBase(const AttendData& data, int64_t row,
                                                                const Vec* scores, uint8_t* weights,
                                                                int64_t half_bytes) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  const Vec base = Set(data.base[row]);
  __m512i weight[4];
  for (int i = 0; i < 4; ++i) {  // rounded to bf16 before the sum, so that it is theirs
    const __m512i bits = _mm512_castps_si512(Exp2(Sub(scores[i], base)));
    weight[i] = _mm512_and_si512(_mm512_add_epi32(bits, half), upper);
  }
  const auto as_floats = [&](int i) { return _mm512_castsi512_ps(weight[i]); };
  const Vec sum = Add(Add(as_floats(0), as_floats(1)), Add(as_floats(2), as_floats(3)));
  if (!kAlways &&
      __builtin_expect(_mm512_cmp_ps_mask(sum, Set(data.limit[row]), _CMP_GT_OQ) != 0, false)) {
    return false;
  }
  float* totals = data.totals + row * kLanes;
  Store(totals, Add(Load(totals), sum));
  for (int i = 0; i < 2; ++i) {
    _mm512_storeu_si512(weights + i * half_bytes,
                        _mm512_or_si512(_mm512_srli_epi32(weight[2 * i], 16), weight[2 * i + 1]));
  }
  return true;
}

// The same of any base, which moves where it must. Then stores the factor of the row's sums so far
// and returns true.
static inline bool WeighRow(const AttendData& data, int64_t row, const Vec* scores,
                            uint8_t* weights, int64_t half_bytes, float* factor) {
  if (WeighWithBase<false>(data, row, scores, weights, half_bytes)) return false;
  *factor = MoveBase(data, row, HighestOf(scores));
  return WeighWithBase<true>(data, row, scores, weights, half_bytes);
}

// Half of a pair of key tiles' values as half of [2 * steps, 16 key pairs, 16 dims, 2], a pair
// being keys i and i + 16: of 32 dims the first tile holds those whose number has no bit 2, the
// second the others. Of values that no row sees: zeros. Calls between() 8 times.
template <int kSteps, bool kWhole, typename Fn>
static inline void PairHalf(const AttendData& data, const KeyChunk& chunk, int64_t tile,
                            Fn&& between) {
  const int64_t steps = StepsOf<kSteps>(data);
  const int64_t stride = chunk.stride;
  const int64_t begin = tile % 2 * (kTileSide / 2);  // of keys of either tile
  const uint8_t* from[2];
  for (int64_t i = 0; i < 2; ++i) {
    const int64_t of = tile / 2 * 2 + i;
    const bool any = of >= chunk.tile_begin && of < chunk.tile_end;
    from[i] = chunk.values[any ? of : chunk.tile_begin] + begin * stride;
  }
  uint8_t* to = chunk.paired + tile / 2 * steps * 2 * kTileBytes + begin * 64;
  const int64_t first = tile / 2 * 2 * kTileSide + begin;
  for (int64_t key = first; key < first + kTileSide / 2; ++key) {
    const auto seen = [&](int64_t k) { return k >= chunk.begin && k < chunk.end ? ~0u : 0; };
    const __mmask32 low_seen = seen(key), high_seen = seen(key + kTileSide);
    for (int64_t step = 0; step < steps; ++step) {
      const __m512i low = kWhole ? _mm512_loadu_si512(from[0] + step * 64)
                                 : _mm512_maskz_loadu_epi16(low_seen, from[0] + step * 64);
      const __m512i high = kWhole ? _mm512_loadu_si512(from[1] + step * 64)
                                  : _mm512_maskz_loadu_epi16(high_seen, from[1] + step * 64);
      uint8_t* out = to + step * 2 * kTileBytes;
      _mm512_storeu_si512(out, _mm512_unpacklo_epi16(low, high));
      _mm512_storeu_si512(out + kTileBytes, _mm512_unpackhi_epi16(low, high));
    }
    from[0] += stride;
    from[1] += stride;
    to += 64;
    between();
  }
}
template <int kSteps, typename Fn>
static inline void PairHalf(const AttendData& data, const KeyChunk& chunk, int64_t tile,
                            Fn&& between) {
  const int64_t first = tile / 2 * 2 * kTileSide;
  if (chunk.begin <= first && first + 2 * kTileSide <= chunk.end) {
    PairHalf<kSteps, true>(data, chunk, tile, between);
  } else {
    PairHalf<kSteps, false>(data, chunk, tile, between);
  }
}

// Values are added 32 at a time, so the other tile of a pair is there too.
template <int kSteps>
static inline void PairValues(const AttendData& data, const KeyChunk& chunk) {
  for (int64_t tile = chunk.tile_begin / 2 * 2; tile < RoundUp(chunk.tile_end, 2); ++tile) {
    PairHalf<kSteps>(data, chunk, tile, [] {});
  }
}

// Output of a row whose sums lie in tiles of 16 dims. Returns the lanes that are not finite.
static inline __mmask16 FinishRow(const AttendData& data, int64_t row, const float* sums) {
  const AttendArgs* args = data.args;
  const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
  const float total = ReduceAdd(Load(data.totals + row * kLanes));
  const Vec factor = Set(1.0f / total);
  if (args->base != nullptr) {
    args->base[row] = data.base[row];
    args->total[row] = total;
  }
  __mmask16 bad = 0;
  for (int64_t step = 0; step < data.steps; ++step) {
    const Vec a = Load(sums + step * 2 * kTileFloats),
              b = Load(sums + (step * 2 + 1) * kTileFloats);
    const Vec out[2] = {_mm512_permutex2var_ps(a, first, b), _mm512_permutex2var_ps(a, second, b)};
    for (int64_t part = 0; part < 2; ++part) {
      const int64_t dim = step * kPairDims + part * kLanes;
      // A product with zero weights turns -0 into 0: so do all.
      bad |= StoreDims(args->out[row] + dim, Mul(Add(out[part], Zero()), factor),
                       args->head_dim - dim);
    }
  }
  return bad;
}

}  // namespace
}  // namespace tandem::ops
