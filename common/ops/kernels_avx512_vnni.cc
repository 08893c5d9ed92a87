// The avx512-vnni class: the avx512 kernels, and an int8 matrix product for quantised weights.
// Built for AVX-512 with VNNI; may include nothing with external inline functions.
//
// vpdpbusd multiplies unsigned weight bytes with signed activation bytes into int32, exactly, so
// the order inside a group does not matter. Per output element and group, ascending:
//   sum = fma(float(dot), weight_scale * activation_scale, sum), then fma(min, activation_sum, sum)
#include "common/ops/vector_avx512.h"
// The vector type first: the kernels below are written over it.
#include "common/ops/simd_rows.h"
// Uses simd_rows.h.
#include "common/ops/simd_attention.h"
#include "common/ops/simd_matmul.h"

namespace tandem::ops {
namespace {

constexpr int kIntRows = 6;  // 6 rows x 2 panels: 12 int32 and 12 f32 accumulators

// Group scale = largest magnitude / 127, elements rounded to nearest even. A group too small for
// 127 / max to be finite becomes zero.
void QuantizeRow(const float* x, int64_t k, const QuantizedRow* row) {
  constexpr float kSmallest = 1e-36f;
  for (int64_t group = 0; group * kActivationGroup < k; ++group) {
    Vec v[2];
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t first = group * kActivationGroup + half * kLanes;
      v[half] = first + kLanes <= k ? Load(x + first)
                : first < k         ? LoadPart(x + first, k - first)
                                    : Zero();
    }
    const float max = ReduceMax(Max(_mm512_abs_ps(v[0]), _mm512_abs_ps(v[1])));
    const bool used = max >= kSmallest;
    const float scale = used ? max / 127.0f : 0.0f;
    const Vec inverse = Set(used ? 127.0f / max : 0.0f);
    int32_t sum[2];
    for (int64_t half = 0; half < 2; ++half) {
      const __m512i q = _mm512_cvtps_epi32(Mul(v[half], inverse));
      const __m128i bytes = _mm512_cvtsepi32_epi8(q);
      _mm_storeu_si128(
          reinterpret_cast<__m128i*>(row->q + group * kActivationGroup + half * kLanes), bytes);
      sum[half] = _mm512_reduce_add_epi32(_mm512_cvtepi8_epi32(bytes));
      row->seed16[group * 2 + half] = -128 * sum[half];
    }
    row->scale[group] = scale;
    row->sum[group] = scale * static_cast<float>(sum[0] + sum[1]);
    row->seed[group] = -128 * (sum[0] + sum[1]);
  }
}

enum class IntWeights { kByte32, kByte32Min, kByte16, kNibble32, kNibble32Min };

constexpr bool IsNibble(IntWeights w) {
  return w == IntWeights::kNibble32 || w == IntWeights::kNibble32Min;
}
constexpr bool HasMin(IntWeights w) {
  return w == IntWeights::kByte32Min || w == IntWeights::kNibble32Min;
}

// The 4-element step `step` of a group: 16 columns of 4 unsigned bytes.
template <IntWeights kWeights>
inline __m512i LoadQuads(const uint8_t* block, int step) {
  if constexpr (IsNibble(kWeights)) {
    const __m512i both = _mm512_loadu_si512(block + step / 2 * 64);
    const __m512i shifted = step % 2 == 0 ? both : _mm512_srli_epi32(both, 4);
    return _mm512_and_si512(shifted, _mm512_set1_epi8(15));
  } else {
    return _mm512_loadu_si512(block + step * 64);
  }
}

inline __m512i Broadcast32(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return _mm512_set1_epi32(four);
}

template <IntWeights kWeights, int kRows, int kPanels>
void IntTile(const MatmulArgs* args, int64_t row, int64_t panel) {
  const PackedView& w = *args->weights;
  constexpr int kGroup = kWeights == IntWeights::kByte16 ? 16 : 32;
  constexpr int64_t kValueBytes = kGroup * kPanelColumns / (IsNibble(kWeights) ? 2 : 1);
  constexpr int64_t kBlockBytes = kValueBytes + kPanelColumns * 4 * (HasMin(kWeights) ? 2 : 1);
  const uint8_t* block[kPanels];
  Vec sum[kRows][kPanels];
  for (int p = 0; p < kPanels; ++p) {
    block[p] = w.data + (panel + p) * w.panel_bytes;
    for (int r = 0; r < kRows; ++r) sum[r][p] = Zero();
  }
  const int64_t groups = args->xq_groups;
  const int64_t first = row * groups;
  for (int64_t half = 0; half < w.group_count; ++half) {
    const int64_t group = kGroup == 32 ? half : half / 2;  // of the activations
    const int8_t* q = args->xq.q + (first + group) * 32 + (kGroup == 32 ? 0 : half % 2 * 16);
    __m512i dot[kRows][kPanels];
    for (int r = 0; r < kRows; ++r) {
      __m512i seed = _mm512_setzero_si512();
      if constexpr (kWeights == IntWeights::kByte16) {
        seed = _mm512_set1_epi32(args->xq.seed16[(first + r * groups) * 2 + half]);
      } else if constexpr (!HasMin(kWeights)) {
        seed = _mm512_set1_epi32(args->xq.seed[first + r * groups + group]);
        if constexpr (IsNibble(kWeights)) seed = _mm512_srai_epi32(seed, 4);  // q + 8, not q + 128
      }
      for (int p = 0; p < kPanels; ++p) dot[r][p] = seed;
    }
#pragma GCC unroll 8
    for (int step = 0; step < kGroup / 4; ++step) {
      __m512i quads[kPanels];
      for (int p = 0; p < kPanels; ++p) quads[p] = LoadQuads<kWeights>(block[p], step);
      for (int r = 0; r < kRows; ++r) {
        const __m512i x = Broadcast32(q + r * groups * 32 + step * 4);
        for (int p = 0; p < kPanels; ++p) dot[r][p] = _mm512_dpbusd_epi32(dot[r][p], quads[p], x);
      }
    }
    for (int p = 0; p < kPanels; ++p) {
      const float* factors = reinterpret_cast<const float*>(block[p] + kValueBytes);
      const Vec scale = Load(factors);
      for (int r = 0; r < kRows; ++r) {
        const int64_t at = first + r * groups + group;
        const Vec both = Mul(scale, Set(args->xq.scale[at]));
        sum[r][p] = Fma(_mm512_cvtepi32_ps(dot[r][p]), both, sum[r][p]);
        if constexpr (HasMin(kWeights)) {
          sum[r][p] = Fma(Load(factors + kPanelColumns), Set(args->xq.sum[at]), sum[r][p]);
        }
      }
      block[p] += kBlockBytes;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPanels; ++p) {
      StoreOutput(args, row + r, (panel + p) * kPanelColumns, sum[r][p]);
    }
  }
}

template <IntWeights kWeights, int kRows, int kPanels>
void IntRows(const MatmulArgs* args, int64_t row, int64_t panel) {
  for (; row + kRows <= args->rows; row += kRows) {
    IntTile<kWeights, kRows, kPanels>(args, row, panel);
  }
  if constexpr (kRows > 1) {
    if (row < args->rows) IntRows<kWeights, FewerRows(kRows), kPanels>(args, row, panel);
  }
}

template <IntWeights kWeights>
void IntMatmul(const MatmulArgs* args) {
  int64_t panel = args->panel_begin;
  if (args->rows <= 2) {
    for (; panel + 4 <= args->panel_end; panel += 4) IntRows<kWeights, 2, 4>(args, 0, panel);
  }
  for (; panel + 2 <= args->panel_end; panel += 2) IntRows<kWeights, kIntRows, 2>(args, 0, panel);
  for (; panel < args->panel_end; ++panel) IntRows<kWeights, kIntRows, 1>(args, 0, panel);
}

void Matmul(const MatmulArgs* args) {
  const PackedView& w = *args->weights;
  if (w.layout == WeightLayout::kPanelVnni4) {
    return w.has_min != 0 ? IntMatmul<IntWeights::kNibble32Min>(args)
                          : IntMatmul<IntWeights::kNibble32>(args);
  }
  if (w.layout == WeightLayout::kPanelVnni) {
    if (w.group == 16) return IntMatmul<IntWeights::kByte16>(args);
    return w.has_min != 0 ? IntMatmul<IntWeights::kByte32Min>(args)
                          : IntMatmul<IntWeights::kByte32>(args);
  }
  MatmulF32(args);
}

}  // namespace

const Kernels kAvx512VnniKernels = {RmsNorm, Swiglu, QuantizeRow, Matmul, Attend, ExpSum};

}  // namespace tandem::ops
