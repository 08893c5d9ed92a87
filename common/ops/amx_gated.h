// The product of gate and up, in AMX tiles of bf16: silu(gate) * up goes from the sums straight
// into the image that the next product reads. Included after amx_few_rows.h; internal linkage.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

// Sums of gate and up become the image of the next product's activations, a panel's half of a tile.
class GatedPut {
 public:
  GatedPut(const GatedArgs* args, int64_t panel)
      : args_(args), column_(panel * kPanelColumns), half_(panel % 2) {}

  [[gnu::always_inline]] void Row(int64_t row, const Vec* sums) const {
    const Vec gated = QuickSiluTimes(WithBias(sums[0], args_->gate.bias, column_),
                                     WithBias(sums[1], args_->up_bias, column_));
    const __m256i pairs = Rounded(gated);
    uint8_t* out = TileOf(row) + row % kTileSide * kRowBytes + half_ * kRowBytes / 2;
    if (FillsTile()) {
      _mm512_store_si512(out, _mm512_zextsi256_si512(pairs));
    } else {
      _mm256_store_si256(reinterpret_cast<__m256i*>(out), pairs);
    }
  }
  // Turned, as the next product wants few rows: two columns of all rows in turn.
  void Square(int64_t first_row, int64_t rows, const float (*sums)[kTileSide * kTileSide]) const {
    const int64_t line = TurnedLineBytes(args_->gate.rows);
    const int64_t half_tile = line * kTileSide / 2;
    uint8_t* out = TileOf(first_row) + half_ * half_tile;
    const auto store = [&](uint8_t* to, __m512i pairs) {
      _mm512_mask_storeu_epi32(to, FirstLanes(line / 4), pairs);
    };
    for (int64_t c = 0; c < kTileSide; c += 2, out += line) {
      store(out, rows <= kTileSide / 2 ? HalfPairs(sums, c, rows) : Pairs(sums, c, rows));
      if (FillsTile()) store(out + half_tile, _mm512_setzero_si512());
    }
  }

 private:
  // No panel has the other half.
  bool FillsTile() const { return half_ == 0 && column_ + kPanelColumns >= args_->gate.weights->n; }
  uint8_t* TileOf(int64_t row) const {
    return static_cast<uint8_t*>(args_->out) +
           (row / kTileSide * args_->out_groups + column_ / kActivationGroup) * kTileBytes;
  }
  static __m256i Rounded(Vec v) {
    const __m256bh rounded = _mm512_cvtneps_pbh(v);
    __m256i bits;
    __builtin_memcpy(&bits, &rounded, sizeof bits);
    return bits;
  }
  // Of 16 columns from `column` on; zero past the last.
  Vec WithBias(Vec sum, const float* bias, int64_t column) const {
    if (bias == nullptr) return sum;
    const int64_t left = args_->gate.weights->n - column;
    return Add(sum, left < kLanes ? LoadPart(bias + column, left) : Load(bias + column));
  }
  // Of columns c and c + 1. Sums past the last row are left out: they could be denormal, and slow.
  __m512i Pairs(const float (*sums)[kTileSide * kTileSide], int64_t c, int64_t rows) const {
    __m512i columns[2];
    for (int64_t i = 0; i < 2; ++i) {
      const Vec gate = LoadPart(sums[0] + (c + i) * kTileSide, rows);
      const Vec up = LoadPart(sums[1] + (c + i) * kTileSide, rows);
      columns[i] = _mm512_cvtepu16_epi32(
          Rounded(QuickSiluTimes(WithBiases(gate, args_->gate.bias, c + i, c + i),
                                 WithBiases(up, args_->up_bias, c + i, c + i))));
    }
    return _mm512_or_si512(columns[0], _mm512_slli_epi32(columns[1], 16));
  }
  // The same of at most 8 rows, both columns in one vector.
  __m512i HalfPairs(const float (*sums)[kTileSide * kTileSide], int64_t c, int64_t rows) const {
    const auto both = [&](const float* from, const float* bias) __attribute__((always_inline)) {
      const __mmask8 some = static_cast<__mmask8>(FirstLanes(rows));
      const __m256 first = _mm256_maskz_loadu_ps(some, from + c * kTileSide);
      const __m256 second = _mm256_maskz_loadu_ps(some, from + (c + 1) * kTileSide);
      return WithBiases(_mm512_insertf32x8(_mm512_castps256_ps512(first), second, 1), bias, c,
                        c + 1);
    };
    const __m256i columns =
        Rounded(QuickSiluTimes(both(sums[0], args_->gate.bias), both(sums[1], args_->up_bias)));
    const __m128i first = _mm256_castsi256_si128(columns);
    const __m128i second = _mm256_extracti128_si256(columns, 1);
    return _mm512_zextsi256_si512(
        _mm256_set_m128i(_mm_unpackhi_epi16(first, second), _mm_unpacklo_epi16(first, second)));
  }
  // Of column c in the first half of the lanes and column d in the second.
  Vec WithBiases(Vec sums, const float* bias, int64_t c, int64_t d) const {
    if (bias == nullptr) return sums;
    const auto of = [&](int64_t column) {
      return column < args_->gate.weights->n ? Set(bias[column]) : Zero();
    };
    return Add(sums, _mm512_mask_blend_ps(0xff00, of(column_ + c), of(column_ + d)));
  }

  const GatedArgs* args_;
  int64_t column_;
  int64_t half_;
};

// The same panel of gate and up.
struct GatedProduct {
  const GatedArgs* args;

  template <typename Fn>
  void ForEach(int64_t begin, int64_t end, Fn&& fn) const {
    const int64_t bytes = args->gate.weights->panel_bytes;
    for (int64_t panel = begin; panel < end; ++panel) {
      const Panels<2> panels{
          {args->gate.weights->data + panel * bytes, args->up->data + panel * bytes}, bytes, bytes};
      fn(panels, GatedPut(args, panel));
    }
  }
};

}  // namespace
}  // namespace tandem::ops
