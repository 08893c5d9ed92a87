// Matrix product of quantised weights with integer activations by vpdpbusd. Included after
// vector_avx512.h and simd_matmul.h, by sources built for AVX-512 with VNNI; internal linkage.
//
// Products of weight and activation bytes are added into int32, exactly, so their order inside a
// group does not matter. Per output element and group, ascending:
//   sum = fma(float(dot), weight_scale * activation_scale, sum), then fma(min, activation_sum, sum)
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

enum class IntWeights { kByte32, kByte32Min, kByte16, kNibble32, kNibble32Min };

constexpr bool IsNibble(IntWeights w) {
  return w == IntWeights::kNibble32 || w == IntWeights::kNibble32Min;
}
constexpr bool HasMin(IntWeights w) {
  return w == IntWeights::kByte32Min || w == IntWeights::kNibble32Min;
}
constexpr int GroupOf(IntWeights w) { return w == IntWeights::kByte16 ? 16 : 32; }
// Of one group of one panel, without its factors.
constexpr int64_t ValueBytes(IntWeights w) {
  return GroupOf(w) * kPanelColumns / (IsNibble(w) ? 2 : 1);
}
constexpr int64_t BlockBytes(IntWeights w) {
  return ValueBytes(w) + kPanelColumns * 4 * (HasMin(w) ? 2 : 1);
}

// Calls fn.operator()<IntWeights>() with the kind of `w`; returns false for float weights.
template <typename Fn>
static inline bool WithIntWeights(const PackedView& w, Fn&& fn) {
  if (w.layout == WeightLayout::kPanelVnni4) {
    if (w.has_min != 0) {
      fn.template operator()<IntWeights::kNibble32Min>();
    } else {
      fn.template operator()<IntWeights::kNibble32>();
    }
    return true;
  }
  if (w.layout != WeightLayout::kPanelVnni) return false;
  if (w.group == 16) {
    fn.template operator()<IntWeights::kByte16>();
  } else if (w.has_min != 0) {
    fn.template operator()<IntWeights::kByte32Min>();
  } else {
    fn.template operator()<IntWeights::kByte32>();
  }
  return true;
}

// One row's groups as integers: group scale = largest magnitude / 127, elements rounded to nearest
// even. A group too small for 127 / max to be finite becomes zero.
static void QuantizeRow(const float* x, int64_t k, void* blocks, int64_t row, int64_t) {
  constexpr float kMost = 127.0f;
  constexpr float kSmallest = 1e-36f;
  auto* block = static_cast<ActivationBlock*>(blocks);
  for (int64_t first = 0; first < k; first += kActivationGroup, ++block) {
    Vec v[2];
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t at = first + half * kLanes;
      v[half] = at + kLanes <= k ? Load(x + at) : at < k ? LoadPart(x + at, k - at) : Zero();
    }
    const float max = ReduceMax(Max(_mm512_abs_ps(v[0]), _mm512_abs_ps(v[1])));
    const bool used = max >= kSmallest;
    const float scale = used ? max / kMost : 0.0f;
    const Vec inverse = Set(used ? kMost / max : 0.0f);
    int32_t sum[2];
    for (int64_t half = 0; half < 2; ++half) {
      const __m128i bytes = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(Mul(v[half], inverse)));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(block->q[row] + half * kLanes), bytes);
      sum[half] = _mm512_reduce_add_epi32(_mm512_cvtepi8_epi32(bytes));
      block->seed16[half][row] = -128 * sum[half];
    }
    block->scale[row] = scale;
    block->sum[row] = scale * static_cast<float>(sum[0] + sum[1]);
    block->seed[row] = -128 * (sum[0] + sum[1]);
  }
}

// The 4-element step `step` of a group: 16 columns of 4 unsigned bytes.
template <IntWeights kWeights>
static inline __m512i LoadQuads(const uint8_t* block, int step) {
  if constexpr (IsNibble(kWeights)) {
    const __m512i both = _mm512_loadu_si512(block + step / 2 * 64);
    const __m512i shifted = step % 2 == 0 ? both : _mm512_srli_epi32(both, 4);
    return _mm512_and_si512(shifted, _mm512_set1_epi8(15));
  } else {
    return _mm512_loadu_si512(block + step * 64);
  }
}

constexpr int64_t kFetchAhead = 1024;  // bytes

static inline __m512i Broadcast32(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return _mm512_set1_epi32(four);
}

// The min of a group's 16 columns, if any. `factors`: their scales, then their mins.
template <IntWeights kWeights>
static inline Vec MinOf(const float* factors) {
  if constexpr (!HasMin(kWeights)) return Zero();
  return Load(factors + kPanelColumns);
}

// What a dot product with the stored, unsigned weights starts from, to be that with the weights.
template <IntWeights kWeights>
static inline __m512i Seed(const ActivationBlock& x, int64_t row, int64_t half) {
  if constexpr (HasMin(kWeights)) return _mm512_setzero_si512();
  if constexpr (kWeights == IntWeights::kByte16) return _mm512_set1_epi32(x.seed16[half][row]);
  const __m512i seed = _mm512_set1_epi32(x.seed[row]);
  return IsNibble(kWeights) ? _mm512_srai_epi32(seed, 4) : seed;  // q + 8, not q + 128
}

// kRows rows of one block of rows, from `row` on.
template <IntWeights kWeights, int kRows, int kPanels>
static void IntTile(const MatmulArgs* args, int64_t row, int64_t panel) {
  const PackedView& w = *args->weights;
  constexpr int kGroup = GroupOf(kWeights);
  const int64_t lane = row % kActivationRows;
  const auto* x =
      static_cast<const ActivationBlock*>(args->xq) + row / kActivationRows * args->xq_groups;
  const uint8_t* block[kPanels];
  Vec sum[kRows][kPanels];
  for (int p = 0; p < kPanels; ++p) {
    block[p] = w.data + (panel + p) * w.panel_bytes;
    for (int r = 0; r < kRows; ++r) sum[r][p] = Zero();
  }
  for (int64_t group = 0; group < w.group_count; ++group) {
    for (int p = 0; p < kPanels; ++p) Fetch<BlockBytes(kWeights)>(block[p] + kFetchAhead);
    const int64_t half = kGroup == 32 ? 0 : group % 2;
    __m512i dot[kRows][kPanels];
    for (int r = 0; r < kRows; ++r) {
      const __m512i seed = Seed<kWeights>(*x, lane + r, half);
      for (int p = 0; p < kPanels; ++p) dot[r][p] = seed;
    }
#pragma GCC unroll 8
    for (int step = 0; step < kGroup / 4; ++step) {
      __m512i quads[kPanels];
      for (int p = 0; p < kPanels; ++p) quads[p] = LoadQuads<kWeights>(block[p], step);
      for (int r = 0; r < kRows; ++r) {
        const __m512i four = Broadcast32(x->q[lane + r] + half * 16 + step * 4);
        for (int p = 0; p < kPanels; ++p) {
          dot[r][p] = _mm512_dpbusd_epi32(dot[r][p], quads[p], four);
        }
      }
    }
    for (int p = 0; p < kPanels; ++p) {
      const float* factors = reinterpret_cast<const float*>(block[p] + ValueBytes(kWeights));
      const Vec scale = Load(factors);
      const Vec min = MinOf<kWeights>(factors);
      for (int r = 0; r < kRows; ++r) {
        const Vec both = Mul(scale, Set(x->scale[lane + r]));
        sum[r][p] = Fma(_mm512_cvtepi32_ps(dot[r][p]), both, sum[r][p]);
        if constexpr (HasMin(kWeights)) sum[r][p] = Fma(min, Set(x->sum[lane + r]), sum[r][p]);
      }
      block[p] += BlockBytes(kWeights);
    }
    if (kGroup == 32 || half == 1) ++x;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPanels; ++p) {
      StoreOutput(args, row + r, (panel + p) * kPanelColumns, sum[r][p]);
    }
  }
}

// Rows [row, end) of one block of rows.
template <IntWeights kWeights, int kRows, int kPanels>
static void IntRows(const MatmulArgs* args, int64_t row, int64_t end, int64_t panel) {
  for (; row + kRows <= end; row += kRows) {
    IntTile<kWeights, kRows, kPanels>(args, row, panel);
  }
  if constexpr (kRows > 1) {
    if (row < end) IntRows<kWeights, FewerRows(kRows), kPanels>(args, row, end, panel);
  }
}

template <IntWeights kWeights, int kRows, int kPanels>
static void IntPanels(const MatmulArgs* args, int64_t panel) {
  for (int64_t row = 0; row < args->rows; row += kActivationRows) {
    const int64_t end = row + kActivationRows < args->rows ? row + kActivationRows : args->rows;
    IntRows<kWeights, kRows, kPanels>(args, row, end, panel);
  }
}

template <IntWeights kWeights>
static void IntMatmul(const MatmulArgs* args) {
  constexpr int kRows = 6;  // x 2 panels: 12 int32 accumulators and as many sums
  for (int64_t panel, end; args->claim(args->claims, &panel, &end);) {
    if (args->rows <= 2) {
      for (; panel + 4 <= end; panel += 4) IntPanels<kWeights, 2, 4>(args, panel);
    }
    for (; panel + 2 <= end; panel += 2) IntPanels<kWeights, kRows, 2>(args, panel);
    for (; panel < end; ++panel) IntPanels<kWeights, kRows, 1>(args, panel);
  }
}

}  // namespace
}  // namespace tandem::ops
