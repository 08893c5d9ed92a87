// Packed weights to tiles of bf16: 16 columns by 32 elements of k. Included by sources built for
// AMX; internal linkage.
//
// Rounding is free: scale and min are enlarged by kEnlarged, then the lower half of scale * q + min
// is cut off. The result is the bf16 below or above, the nearer one but for values within a fifth
// of a step of the middle; over all values the errors cancel. What is a bf16 stays what it is, but
// for what f32 loses where scale * q and min nearly cancel.
// Four bits: the 16 possible weights of a column are worked out in f32 and picked by vpermb, which
// takes the upper half of each; 8 bits: each weight on its own.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

enum class TileWeights { kNibble, kNibbleMin, kByte, kByteMin, kByte16, kBf16 };

// How one block lies in memory: values, then scales, then mins. kHalf: these as halves.
template <TileWeights kWeights, bool kHalf>
struct TileBlock {
  static constexpr bool kIsBf16 = kWeights == TileWeights::kBf16;
  static constexpr bool kIsNibble =
      kWeights == TileWeights::kNibble || kWeights == TileWeights::kNibbleMin;
  static constexpr bool kHasMin =
      kWeights == TileWeights::kNibbleMin || kWeights == TileWeights::kByteMin;
  static constexpr int kScales = kIsBf16 ? 0 : kWeights == TileWeights::kByte16 ? 2 : 1;
  static constexpr int64_t kValueBytes = kIsBf16 ? 1024 : kIsNibble ? 256 : 512;
  static constexpr int64_t kLineBytes = kPanelColumns * (kHalf ? 2 : 4);
  static constexpr int64_t kBytes = kValueBytes + kLineBytes * (kScales + (kHasMin ? 1 : 0));
};

// Calls fn.operator()<TileWeights, bool kHalf>() with the kind of `w`; returns false for weights
// that do not lie in tiles.
template <typename Fn>
static inline bool WithTileWeights(const PackedView& w, Fn&& fn) {
  const auto with = [&]<TileWeights kWeights>() {
    if (w.half_factors != 0) {
      fn.template operator()<kWeights, true>();
    } else {
      fn.template operator()<kWeights, false>();
    }
  };
  switch (w.layout) {
    case WeightLayout::kTileNibble:
      if (w.has_min != 0) {
        with.template operator()<TileWeights::kNibbleMin>();
      } else {
        with.template operator()<TileWeights::kNibble>();
      }
      return true;
    case WeightLayout::kTileByte:
      if (w.group == 16) {
        with.template operator()<TileWeights::kByte16>();
      } else if (w.has_min != 0) {
        with.template operator()<TileWeights::kByteMin>();
      } else {
        with.template operator()<TileWeights::kByte>();
      }
      return true;
    case WeightLayout::kTileBf16:
      fn.template operator()<TileWeights::kBf16, false>();
      return true;
    default:
      return false;
  }
}

// 1 + ln 2 / 256: enlarges a number by half a bf16 step, on the average over all significands, and
// by less than a step.
constexpr float kEnlarged = 1.00270764f;

// A block's scales and mins, enlarged, where a broadcast from memory finds them.
template <TileWeights kWeights, bool kHalf>
static inline const float* Factors(const uint8_t* block, float* room) {
  using Block = TileBlock<kWeights, kHalf>;
  const uint8_t* p = block + Block::kValueBytes;
  for (int line = 0; line < Block::kScales + (Block::kHasMin ? 1 : 0); ++line) {
    const uint8_t* from = p + line * Block::kLineBytes;
    const Vec factors = kHalf ? LoadF16(from) : Load(reinterpret_cast<const float*>(from));
    _mm512_store_ps(room + line * kPanelColumns, Mul(factors, Set(kEnlarged)));
  }
  // Or GCC would permute registers, on the port that picks weights.
  const float* in_memory = room;
  asm("" : "+r"(in_memory) : : "memory");
  return in_memory;
}

// For each byte of a row's 32 weights, the bit of its 8 bytes of words from which vpmultishiftqb
// takes 8: two below the element's nibble. Columns after the first: 4, 8, 12 bits on.
static inline __m512i NibblePlaces() {
  return _mm512_set1_epi64(static_cast<int64_t>(0x2e2e1e1e0e0efefe));
}

template <TileWeights kWeights, bool kHalf>
[[gnu::always_inline]] static inline void UnpackNibbles(const uint8_t* block, const float* factors,
                                                        uint8_t* tile) {
  constexpr float kFirst = TileBlock<kWeights, kHalf>::kHasMin ? 0.0f : -8.0f;
  const Vec values =
      Add(_mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), Set(kFirst));
  const __m512i nibble = _mm512_set1_epi8(0x3c);
  const __m512i upper = _mm512_set1_epi16(0x0302);  // bytes of an f32
#pragma GCC unroll 4
  for (int quad = 0; quad < 4; ++quad) {
    const __m512i words = _mm512_loadu_si512(block + quad * 64);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const int column = quad * 4 + r;
      const Vec scale = Set(factors[column]);
      Vec table;
      if constexpr (TileBlock<kWeights, kHalf>::kHasMin) {
        table = Fma(scale, values, Set(factors[kPanelColumns + column]));
      } else {
        table = Mul(scale, values);
      }
      const __m512i places =
          _mm512_add_epi8(NibblePlaces(), _mm512_set1_epi8(static_cast<char>(4 * r)));
      const __m512i shifted = _mm512_multishift_epi64_epi8(places, words);
      const __m512i index = _mm512_ternarylogic_epi64(shifted, nibble, upper, 0xea);  // a & b | c
      _mm512_store_si512(tile + column * 64,
                         _mm512_permutexvar_epi8(index, _mm512_castps_si512(table)));
    }
  }
}

template <TileWeights kWeights, bool kHalf>
[[gnu::always_inline]] static inline void UnpackBytes(const uint8_t* block, const float* factors,
                                                      uint8_t* tile) {
  using Block = TileBlock<kWeights, kHalf>;
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
#pragma GCC unroll 4
  for (int column = 0; column < kPanelColumns; ++column) {
    __m512i half[2];  // elements 0, 2, … and 1, 3, …
    for (int i = 0; i < 2; ++i) {
      const Vec q = LoadI8(block + column * 32 + i * 16);
      Vec scale = Set(factors[column]);
      if constexpr (Block::kScales == 2) {
        scale = _mm512_mask_mov_ps(scale, 0xff00, Set(factors[kPanelColumns + column]));
      }
      if constexpr (Block::kHasMin) {
        half[i] = _mm512_castps_si512(Fma(q, scale, Set(factors[kPanelColumns + column])));
      } else {
        half[i] = _mm512_castps_si512(Mul(q, scale));
      }
    }
    const __m512i even = _mm512_srli_epi32(half[0], 16);
    _mm512_store_si512(tile + column * 64,
                       _mm512_ternarylogic_epi32(half[1], upper, even, 0xea));  // a & b | c
  }
}

// One block into tile [16 columns, 32] bf16.
template <TileWeights kWeights, bool kHalf>
[[gnu::always_inline]] static inline void UnpackBlock(const uint8_t* block, uint8_t* tile) {
  using Block = TileBlock<kWeights, kHalf>;
  if constexpr (Block::kIsBf16) {
    for (int column = 0; column < kPanelColumns; ++column) {
      _mm512_store_si512(tile + column * 64, _mm512_loadu_si512(block + column * 64));
    }
  } else {
    alignas(64) float room[3 * kPanelColumns];
    const float* factors = Factors<kWeights, kHalf>(block, room);
    if constexpr (Block::kIsNibble) {
      UnpackNibbles<kWeights, kHalf>(block, factors, tile);
    } else {
      UnpackBytes<kWeights, kHalf>(block, factors, tile);
    }
  }
}

}  // namespace
}  // namespace tandem::ops
