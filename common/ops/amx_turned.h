// Packed weights to tiles as second operands: 16 pairs of elements of k by 16 columns. The bytes of
// amx_unpack.h's, in another order. Included after amx_unpack.h; internal linkage.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

// Turns a tile's 16 rows of 16 pairs.
static inline void TurnPairs(const uint8_t* in, uint8_t* out) {
  Vec r[kTileSide];
  for (int64_t i = 0; i < kTileSide; ++i) {
    r[i] = Load(reinterpret_cast<const float*>(in + i * 64));
  }
  Transpose(r);
  for (int64_t i = 0; i < kTileSide; ++i) {
    Store(reinterpret_cast<float*>(out + i * 64), r[i]);
  }
}

// The packed nibbles are turned instead, an eighth of that, and a lane has a column's factors.
template <TileWeights kWeights, bool kHalf>
[[gnu::always_inline]] static inline void UnpackNibblesTurned(const uint8_t* block, uint8_t* out) {
  using Block = TileBlock<kWeights, kHalf>;
  constexpr float kFirst = Block::kHasMin ? 0.0f : -8.0f;
  const Vec values =
      Add(_mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), Set(kFirst));
  const Vec scale = EnlargedFactors<Block, kHalf>(block, 0);
  const Vec min = Block::kHasMin ? EnlargedFactors<Block, kHalf>(block, 1) : Zero();
  Vec quads[4], pairs[4];  // of four columns all pairs; four pairs of all columns
  for (int i = 0; i < 4; ++i) quads[i] = Load(reinterpret_cast<const float*>(block + i * 64));
  TransposeFour(quads, pairs);
  const __m512i even = _mm512_set4_epi32(12, 8, 4, 0);
  const __m512i odd = _mm512_set4_epi32(28, 24, 20, 16);
  const __m512i upper = _mm512_set4_epi32(0x0f0e, 0x0b0a, 0x0706, 0x0302);
  const __m512i first = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  const auto weights = [&](__m512i words, __m512i shift) __attribute__((always_inline)) {
    // Of an index only the low four bits count.
    const Vec q = _mm512_permutexvar_ps(_mm512_srlv_epi32(words, shift), values);
    if constexpr (Block::kHasMin) {
      return _mm512_castps_si512(Fma(scale, q, min));
    } else {
      return _mm512_castps_si512(Mul(scale, q));
    }
  };
#pragma GCC unroll 4
  for (int group = 0; group < 4; ++group) {
    const __m512i lanes = _mm512_add_epi32(first, _mm512_set1_epi32(4 * group));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512i words = _mm512_permutexvar_epi32(lanes, _mm512_castps_si512(pairs[i]));
      _mm512_store_si512(out + (group * 4 + i) * 64,
                         _mm512_mask_shuffle_epi8(weights(words, odd), 0x3333333333333333,
                                                  weights(words, even), upper));
    }
  }
}

template <TileWeights kWeights, bool kHalf>
[[gnu::always_inline]] static inline void UnpackBlockTurned(const uint8_t* block, uint8_t* out) {
  if constexpr (TileBlock<kWeights, kHalf>::kIsNibble) {
    UnpackNibblesTurned<kWeights, kHalf>(block, out);
  } else {
    alignas(64) uint8_t tile[kTileBytes];
    Factors<kWeights, kHalf> factors;
    factors.Expand(block);
    UnpackBlock<kWeights, kHalf>(block, factors, tile);
    TurnPairs(tile, out);
  }
}

}  // namespace
}  // namespace tandem::ops
