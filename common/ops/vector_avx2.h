// 8 f32 lanes for the shared SIMD kernels. Only for sources built for AVX2, FMA and F16C:
// everything has internal linkage, nothing with external inline functions is included.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace tandem::ops {
namespace {

using Vec = __m256;
constexpr int64_t kLanes = 8;
constexpr int kTileRows = 6;   // rows of the unpacked matrix tile: 6 x 2 accumulators
constexpr int kTileVecs = 2;   // its columns
constexpr int kFusedRows = 2;  // rows up to which weights are unpacked in registers
constexpr int kFusedVecs = 4;
constexpr int kAttentionRows = 2;  // query rows that share one pass over a chunk

static inline Vec Zero() { return _mm256_setzero_ps(); }
static inline Vec Set(float x) { return _mm256_set1_ps(x); }
static inline Vec Load(const float* p) { return _mm256_loadu_ps(p); }
static inline void Store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
static inline __m256i Lanes() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
static inline __m256i FirstLanes(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), Lanes());
}
// The first `count` < 8 lanes; zero in the others.
static inline Vec LoadPart(const float* p, int64_t count) {
  return _mm256_maskload_ps(p, FirstLanes(count));
}
static inline void StorePart(float* p, Vec v, int64_t count) {
  _mm256_maskstore_ps(p, FirstLanes(count), v);
}
static inline Vec KeepFirst(Vec v, int64_t count) {
  return _mm256_and_ps(v, _mm256_castsi256_ps(FirstLanes(count)));
}
// Lanes that hold first..first + 7; where one lies outside [begin, end): -infinity.
static inline Vec MaskOutside(Vec v, int64_t first, int64_t begin, int64_t end) {
  const __m256i lane = _mm256_add_epi32(Lanes(), _mm256_set1_epi32(static_cast<int>(first)));
  const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(begin)), lane);
  const __m256i inside = _mm256_andnot_si256(
      below, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(end)), lane));
  return _mm256_blendv_ps(_mm256_set1_ps(-__builtin_inff()), v, _mm256_castsi256_ps(inside));
}

static inline Vec Add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
static inline Vec Sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
static inline Vec Mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
static inline Vec Div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
static inline Vec Sqrt(Vec a) { return _mm256_sqrt_ps(a); }
static inline Vec Max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
static inline Vec Min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
static inline Vec Fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline Vec NegFma(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a * b
static inline Vec Round(Vec a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// 2^n of lanes that hold whole numbers.
static inline Vec PowerOfTwo(Vec n) {
  const __m256i bits = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
}
// v where x >= bound, else 0.
static inline Vec ZeroUnless(Vec x, Vec bound, Vec v) {
  return _mm256_and_ps(_mm256_cmp_ps(x, bound, _CMP_GE_OQ), v);
}

// The class's lane tree: halves are added until one lane is left.
static inline float ReduceAdd(Vec v) {
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
static inline float ReduceMax(Vec v) {
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}

static inline Vec LoadI8(const uint8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}
static inline Vec LoadF16(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static inline Vec Bf16ToVec(__m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
static inline Vec LoadBf16(const uint8_t* p) {
  return Bf16ToVec(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static inline Vec LoadBf16Part(const uint8_t* p, int64_t count) {
  uint16_t bits[8] = {};
  __builtin_memcpy(bits, p, static_cast<unsigned long>(count) * 2);
  return LoadBf16(reinterpret_cast<const uint8_t*>(bits));
}

// A bit for each lane that is NaN.
static inline int32_t NanLanes(Vec v) {
  return _mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}
// To nearest, ties to even; a NaN stays one.
static inline void StoreBf16(uint16_t* out, Vec v, int64_t count = kLanes) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i nearest = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(nearest),
                                                             _mm256_castsi256_ps(quiet), nan)),
                        16);
  const __m128i packed =
      _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
  __builtin_memcpy(out, &packed, static_cast<unsigned long>(count) * 2);
}

// In place: lane j of row i becomes lane i of row j.
static inline void Transpose(Vec* r) {
  Vec t[8];
  for (int i = 0; i < 8; i += 4) {  // 4 x 4 within 128-bit lanes
    const Vec a = _mm256_unpacklo_ps(r[i], r[i + 1]);
    const Vec b = _mm256_unpackhi_ps(r[i], r[i + 1]);
    const Vec c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]);
    const Vec d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
    t[i] = _mm256_shuffle_ps(a, c, 0x44);
    t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
    t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
    t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
  }
}

}  // namespace
}  // namespace tandem::ops
