// Matrix product in AMX tiles of bf16: activations and weights rounded to bf16, sums in f32.
// Included after amx_few_rows.h, amx_many_rows.h and amx_gated.h; internal linkage.
//
// An output element is one chain over the blocks of 32 elements of k in ascending order, as
// tdpbf16ps adds them up, from +0; bias and the old y are added last. The instruction treats its
// operands alike, so weights may be either of them: the first for few rows, the second for many.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

// Sums become rows of y.
template <int kPanels>
struct PlainPut {
  const MatmulArgs* args;
  int64_t panel;

  [[gnu::always_inline]] void Row(int64_t row, const Vec* sums) const {
    for (int p = 0; p < kPanels; ++p) {
      StoreOutput(args, row, (panel + p) * kPanelColumns, sums[p]);
    }
  }
  void Square(int64_t first_row, int64_t rows, const float (*sums)[kTileSide * kTileSide]) const {
    for (int p = 0; p < kPanels; ++p) {
      Vec r[kTileSide];
      for (int64_t c = 0; c < kTileSide; ++c) r[c] = Load(sums[p] + c * kTileSide);
      Transpose(r);
      for (int64_t i = 0; i < rows; ++i) {
        StoreOutput(args, first_row + i, (panel + p) * kPanelColumns, r[i]);
      }
    }
  }
};

// Panels next to one another in one matrix.
struct PlainProduct {
  const MatmulArgs* args;

  // Calls fn(panels, put) for panels [begin, end).
  template <typename Fn>
  void ForEach(int64_t begin, int64_t end, Fn&& fn) const {
    const int64_t bytes = args->weights->panel_bytes;
    const uint8_t* at = args->weights->data + begin * bytes;
    int64_t panel = begin;
    for (; panel + 2 <= end; panel += 2, at += 2 * bytes) {
      fn(Panels<2>{{at, at + bytes}, bytes, 2 * bytes}, PlainPut<2>{args, panel});
    }
    if (panel < end) fn(Panels<1>{{at}, bytes, bytes}, PlainPut<1>{args, panel});
  }
};

template <TileWeights kWeights, bool kHalf, int kTiles, typename Product>
static void FewRowsMatmul(const MatmulArgs* args, const Product& product) {
  const FewActivations x(args);
  ConfigureFewRows<kTiles>(x);
  for (int64_t begin, end; args->claim(args->claims, &begin, &end);) {
    product.ForEach(begin, end, [&](const auto& panels, const auto& put) {
      FewRowsPanels<kWeights, kHalf, kTiles>(x, panels, put);
    });
  }
  ReleaseTiles();
}

template <TileWeights kWeights, bool kHalf, typename Product>
static void ManyRowsMatmul(const MatmulArgs* args, const Product& product) {
  ConfigureManyRows();
  for (int64_t begin, end; args->claim(args->claims, &begin, &end);) {
    product.ForEach(begin, end, [&](const auto& panels, const auto& put) {
      ManyRowsPanels<kWeights, kHalf>(args, panels, put);
    });
  }
  ReleaseTiles();
}

template <TileWeights kWeights, bool kHalf, typename Product>
static void TileMatmul(const MatmulArgs* args, const Product& product) {
  if (args->rows <= kTileSide) {
    FewRowsMatmul<kWeights, kHalf, 1>(args, product);
  } else if (args->rows <= kFewRowsMost) {
    FewRowsMatmul<kWeights, kHalf, 2>(args, product);
  } else {
    ManyRowsMatmul<kWeights, kHalf>(args, product);
  }
}

// Row `row` (0..15) of 16 as bf16, to nearest even, and turned where rows are few; elements past k
// are zero.
static void RoundRow(const float* x, int64_t k, void* image, int64_t row, int64_t rows) {
  const bool turned = AreTurned(rows);
  const __m512i places =
      _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                         _mm512_set1_epi32(static_cast<int>(TurnedLineBytes(rows))));
  uint8_t* out = static_cast<uint8_t*>(image) + row * (turned ? 4 : kRowBytes);
  for (int64_t first = 0; first < k; first += kActivationGroup, out += kTileBytes) {
    Vec v[2];
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t at = first + half * kLanes;
      v[half] = at + kLanes <= k ? Load(x + at) : at < k ? LoadPart(x + at, k - at) : Zero();
    }
    const auto rounded = _mm512_cvtne2ps_pbh(v[1], v[0]);
    __m512i pairs;
    __builtin_memcpy(&pairs, &rounded, sizeof pairs);
    if (turned) {
      _mm512_i32scatter_epi32(out, places, pairs, 1);
    } else {
      _mm512_store_si512(out, pairs);
    }
  }
}

}  // namespace
}  // namespace tandem::ops
