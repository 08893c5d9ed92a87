// Packed weights to tiles of bf16: 16 columns by 32 elements of k. Included by sources built for
// AMX; internal linkage.
//
// Rounding is free: scale and min are enlarged by kEnlarged, then the lower half of scale * q + min
// is cut off. The result is the bf16 below or above, the nearer one but for values within a fifth
// of a step of the middle; over all values the errors cancel. What is a bf16 stays what it is, but
// for what f32 loses where scale * q and min nearly cancel.
// Four bits: the 16 possible weights of a column are worked out in f32 and picked by vpermb, which
// takes the upper half of each; 8 bits: each weight on its own, without a conversion to float.
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

// Bytes are unpacked as kByteBase + 256 * byte, a byte without min as that of q + 128.
constexpr float kByteBase = 8388608.0f;  // 2^23: the next float is larger by one
constexpr float kSignedBase = kByteBase + 256.0f * 128.0f;

// Line `line` of a block's scales and mins: of 16 columns.
template <typename Block, bool kHalf>
[[gnu::always_inline]] static inline Vec EnlargedFactors(const uint8_t* block, int line) {
  const uint8_t* p = block + Block::kValueBytes + line * Block::kLineBytes;
  const Vec factors = kHalf ? LoadF16(p) : Load(reinterpret_cast<const float*>(p));
  return Mul(factors, Set(kEnlarged));
}

// A block's factors where a broadcast from memory finds them: from a register it would take the
// port that picks weights. Lines of 16 columns: scales and mins, enlarged. Of bytes a scale is that
// of a 256th, and what the base makes of it is taken off the min, or (exactly) off zero.
template <TileWeights kWeights, bool kHalf>
struct Factors {
  using Block = TileBlock<kWeights, kHalf>;
  static constexpr bool kBytes = !Block::kIsBf16 && !Block::kIsNibble;
  static constexpr int kRest = Block::kScales;  // or mins

  alignas(64) float lines[2 * Block::kScales + 1][kPanelColumns];

  [[gnu::always_inline]] void Expand(const uint8_t* block) {
    if constexpr (Block::kIsBf16) return;
    for (int line = 0; line < Block::kScales; ++line) {
      Vec scale = EnlargedFactors<Block, kHalf>(block, line);
      if constexpr (kBytes) scale = Mul(scale, Set(1.0f / 256));
      if constexpr (kBytes && !Block::kHasMin) {
        // 15 bits of it, so that its product with the base of 9 is exact.
        scale = _mm512_castsi512_ps(
            _mm512_and_epi32(_mm512_castps_si512(scale), _mm512_set1_epi32(~0x1ff)));
        Store(lines[kRest + line], Mul(scale, Set(-kSignedBase)));
      }
      Store(lines[line], scale);
      if constexpr (Block::kHasMin) {
        const Vec min = EnlargedFactors<Block, kHalf>(block, kRest);
        Store(lines[kRest], kBytes ? Fma(scale, Set(-kByteBase), min) : min);
      }
    }
    asm("" : : : "memory");  // or GCC would broadcast them from registers
  }
};

// For each byte of a row's 32 weights, the bit of its 8 bytes of words from which vpmultishiftqb
// takes 8: two below the element's nibble. Columns after the first: 4, 8, 12 bits on.
static inline __m512i NibblePlaces() {
  return _mm512_set1_epi64(static_cast<int64_t>(0x2e2e1e1e0e0efefe));
}

template <TileWeights kWeights, bool kHalf>
[[gnu::always_inline]] static inline void UnpackNibbles(const uint8_t* block,
                                                        const Factors<kWeights, kHalf>& factors,
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
      const Vec scale = Set(factors.lines[0][column]);
      Vec table;
      if constexpr (TileBlock<kWeights, kHalf>::kHasMin) {
        table = Fma(scale, values, Set(factors.lines[1][column]));
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

// Byte kByte of each four on its base. What converts integers, or multiplies, runs on one port
// beside tile products, on which sign extension and conversion took twice as long as all of this.
template <int kByte>
[[gnu::always_inline]] static inline Vec OnBase(__m512i bytes) {
  const __m512i base = _mm512_castps_si512(Set(kByteBase));
  if constexpr (kByte == 1) {
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(bytes, _mm512_set1_epi32(0xff00), base, 0xea));  // a & b | c
  }
  const __m512i places =
      _mm512_set4_epi32((12 + kByte) << 8, (8 + kByte) << 8, (4 + kByte) << 8, kByte << 8);
  return _mm512_castsi512_ps(_mm512_mask_shuffle_epi8(base, 0x2222222222222222, bytes, places));
}

// Of a column and its elements 0, 2, … 30 or 1, 3, … 31.
template <TileWeights kWeights, bool kHalf, int kByte>
[[gnu::always_inline]] static inline __m512i ByteWeights(__m512i bytes,
                                                         const Factors<kWeights, kHalf>& factors,
                                                         int column) {
  using F = Factors<kWeights, kHalf>;
  const auto of = [&](int line) __attribute__((always_inline)) {
    const Vec first = Set(factors.lines[line][column]);
    if constexpr (F::Block::kScales == 1) return first;
    // Elements 0 … 15 and 16 … 31.
    return _mm512_mask_mov_ps(first, 0xff00, Set(factors.lines[line + 1][column]));
  };
  return _mm512_castps_si512(Fma(OnBase<kByte>(bytes), of(0), of(F::kRest)));
}

template <TileWeights kWeights, bool kHalf>
[[gnu::always_inline]] static inline void UnpackBytes(const uint8_t* block,
                                                      const Factors<kWeights, kHalf>& factors,
                                                      uint8_t* tile) {
  constexpr int8_t kFlip = Factors<kWeights, kHalf>::Block::kHasMin ? 0 : -128;
  const __m512i upper = _mm512_set4_epi32(0x0f0e, 0x0b0a, 0x0706, 0x0302);
  const auto store = [&](int column, __m512i even, __m512i odd) __attribute__((always_inline)) {
    _mm512_store_si512(tile + column * 64,
                       _mm512_mask_shuffle_epi8(odd, 0x3333333333333333, even, upper));
  };
#pragma GCC unroll 4
  for (int c = 0; c < kPanelColumns; c += 2) {
    const __m512i bytes =
        _mm512_xor_si512(_mm512_loadu_si512(block + c * 32), _mm512_set1_epi8(kFlip));
    store(c, ByteWeights<kWeights, kHalf, 0>(bytes, factors, c),
          ByteWeights<kWeights, kHalf, 1>(bytes, factors, c));
    store(c + 1, ByteWeights<kWeights, kHalf, 2>(bytes, factors, c + 1),
          ByteWeights<kWeights, kHalf, 3>(bytes, factors, c + 1));
  }
}

// One block into tile [16 columns, 32] bf16.
template <TileWeights kWeights, bool kHalf>
[[gnu::always_inline]] static inline void UnpackBlock(const uint8_t* block,
                                                      const Factors<kWeights, kHalf>& factors,
                                                      uint8_t* tile) {
  using Block = TileBlock<kWeights, kHalf>;
  if constexpr (Block::kIsBf16) {
    for (int column = 0; column < kPanelColumns; ++column) {
      _mm512_store_si512(tile + column * 64, _mm512_loadu_si512(block + column * 64));
    }
  } else if constexpr (Block::kIsNibble) {
    UnpackNibbles<kWeights, kHalf>(block, factors, tile);
  } else {
    UnpackBytes<kWeights, kHalf>(block, factors, tile);
  }
}

}  // namespace
}  // namespace tandem::ops
