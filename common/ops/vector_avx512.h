// 16 f32 lanes for the shared SIMD kernels. Only for sources built for AVX-512 (F, BW, DQ, VL):
// everything has internal linkage, nothing with external inline functions is included.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace tandem::ops {
namespace {

using Vec = __m512;
constexpr int64_t kLanes = 16;
constexpr int kTileRows = 12;  // rows of the unpacked matrix tile: 12 x 2 accumulators
constexpr int kTileVecs = 2;   // its columns
constexpr int kFusedRows = 4;  // rows up to which weights are unpacked in registers
constexpr int kFusedVecs = 4;
constexpr int kAttentionRows = 4;  // query rows that share one pass over a chunk

static inline Vec Zero() { return _mm512_setzero_ps(); }
static inline Vec Set(float x) { return _mm512_set1_ps(x); }
static inline Vec Load(const float* p) { return _mm512_loadu_ps(p); }
static inline void Store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
static inline __mmask16 FirstLanes(int64_t count) {
  return static_cast<__mmask16>((1u << count) - 1u);
}
// The first `count` < 16 lanes; zero in the others.
static inline Vec LoadPart(const float* p, int64_t count) {
  return _mm512_maskz_loadu_ps(FirstLanes(count), p);
}
static inline void StorePart(float* p, Vec v, int64_t count) {
  _mm512_mask_storeu_ps(p, FirstLanes(count), v);
}
static inline Vec KeepFirst(Vec v, int64_t count) {
  return _mm512_maskz_mov_ps(FirstLanes(count), v);
}
// Lanes that hold first..first + 15; where one lies outside [begin, end): -infinity.
static inline Vec MaskOutside(Vec v, int64_t first, int64_t begin, int64_t end) {
  const __m512i lane =
      _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                       _mm512_set1_epi32(static_cast<int>(first)));
  const __mmask16 inside =
      _mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(static_cast<int>(begin))) &
      _mm512_cmplt_epi32_mask(lane, _mm512_set1_epi32(static_cast<int>(end)));
  return _mm512_mask_blend_ps(inside, _mm512_set1_ps(-__builtin_inff()), v);
}

static inline Vec Add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
static inline Vec Sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
static inline Vec Mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
static inline Vec Div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
static inline Vec Sqrt(Vec a) { return _mm512_sqrt_ps(a); }
static inline Vec Max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
static inline Vec Min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
static inline Vec Fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline Vec NegFma(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a * b
static inline Vec Round(Vec a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// 2^n of lanes that hold whole numbers.
static inline Vec PowerOfTwo(Vec n) {
  const __m512i bits = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 23));
}
// v where x >= bound, else 0.
static inline Vec ZeroUnless(Vec x, Vec bound, Vec v) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, bound, _CMP_GE_OQ), v);
}

// The class's lane tree: halves are added until one lane is left.
static inline float ReduceAdd(Vec v) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
static inline float ReduceMax(Vec v) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}

static inline Vec LoadI8(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}
static inline Vec LoadF16(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
static inline Vec Bf16ToVec(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
static inline Vec LoadBf16(const uint8_t* p) {
  return Bf16ToVec(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
static inline Vec LoadBf16Part(const uint8_t* p, int64_t count) {
  return Bf16ToVec(_mm256_maskz_loadu_epi16(FirstLanes(count), p));
}

// A bit for each lane that is NaN.
static inline int32_t NanLanes(Vec v) {
  return static_cast<int32_t>(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q));
}
// To nearest, ties to even; a NaN stays one. Not vcvtneps2bf16: that takes denormals for zero.
static inline void StoreBf16(uint16_t* out, Vec v, int64_t count = kLanes) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i nearest = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i rounded = _mm512_srli_epi32(_mm512_mask_mov_epi32(nearest, nan, quiet), 16);
  _mm256_mask_storeu_epi16(out, FirstLanes(count), _mm512_cvtepi32_epi16(rounded));
}

// Asks for kBytes from `p` on. What lies past the weights is asked for in vain. Inline by force:
// GCC takes a function that only asks for one without effect and drops its calls.
template <int64_t kBytes>
[[gnu::always_inline]] static inline void Fetch(const uint8_t* p) {
  for (int64_t at = 0; at < kBytes; at += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(p + at), _MM_HINT_T0);
  }
}

// In place: lane j of row i becomes lane i of row j.
[[gnu::always_inline]] static inline void Transpose(Vec* r) {
  Vec t[16];
  for (int i = 0; i < 16; i += 4) {  // 4 x 4 within 128-bit lanes
    const Vec a = _mm512_unpacklo_ps(r[i], r[i + 1]);
    const Vec b = _mm512_unpackhi_ps(r[i], r[i + 1]);
    const Vec c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]);
    const Vec d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
    t[i] = _mm512_shuffle_ps(a, c, 0x44);
    t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
    t[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
    t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
  }
  for (int i = 0; i < 4; ++i) {  // 4 x 4 of 128-bit lanes
    const Vec a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x44);
    const Vec b = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xee);
    const Vec c = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x44);
    const Vec d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xee);
    r[i] = _mm512_shuffle_f32x4(a, c, 0x88);
    r[i + 4] = _mm512_shuffle_f32x4(a, c, 0xdd);
    r[i + 8] = _mm512_shuffle_f32x4(b, d, 0x88);
    r[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
  }
}

// 4 by 4 within each four lanes.
static inline void TransposeFour(const Vec* v, Vec* to) {
  const Vec a = _mm512_unpacklo_ps(v[0], v[1]), b = _mm512_unpackhi_ps(v[0], v[1]);
  const Vec c = _mm512_unpacklo_ps(v[2], v[3]), d = _mm512_unpackhi_ps(v[2], v[3]);
  to[0] = _mm512_shuffle_ps(a, c, 0x44);
  to[1] = _mm512_shuffle_ps(a, c, 0xee);
  to[2] = _mm512_shuffle_ps(b, d, 0x44);
  to[3] = _mm512_shuffle_ps(b, d, 0xee);
}

}  // namespace
}  // namespace tandem::ops
