// Matrix product in AMX tiles of bf16: activations and weights rounded to bf16, sums in f32.
// Included after simd_matmul.h, amx_tiles.h and amx_unpack.h; internal linkage.
//
// An output element is one chain over the blocks of 32 elements of k in ascending order, as
// tdpbf16ps adds them up, from +0; bias and the old y are added last. The instruction treats its
// operands alike, so weights may be either of them:
//   few rows   columns x rows: weights as they are unpacked, activations with pairs turned
//   many rows  rows x columns: activations as they lie, weights with pairs turned, for all rows
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

static_assert(kTileSide == kActivationRows && kTileSide == kPanelColumns);

constexpr int64_t kFewRowsMost = 2 * kTileSide;
constexpr int64_t kRowBytes = 64;      // of a tile: 32 elements
constexpr int64_t kFetchAhead = 2048;  // bytes

// Calls fn.operator()<0>() … fn.operator()<kCount - 1>(): tiles are numbered at compile time.
template <int kCount, typename Fn>
[[gnu::always_inline]] static inline void Unrolled(Fn&& fn) {
  if constexpr (kCount > 0) {
    Unrolled<kCount - 1>(fn);
    fn.template operator()<kCount - 1>();
  }
}

// Turns `rows` rows of 16 pairs, row_bytes apart, into 16 rows of 16 pairs; rows past them are
// zero.
static inline void TurnPairs(const uint8_t* in, int64_t row_bytes, int64_t rows, uint8_t* out) {
  Vec r[kTileSide];
  for (int64_t i = 0; i < kTileSide; ++i) {
    r[i] = i < rows ? Load(reinterpret_cast<const float*>(in + i * row_bytes)) : Zero();
  }
  Transpose(r);
  for (int64_t i = 0; i < kTileSide; ++i) {
    Store(reinterpret_cast<float*>(out + i * kTileBytes / kTileSide), r[i]);
  }
}

// Activations of few rows as second operands: tile `t` of block `b` at (t * blocks + b) * step.
struct TurnedX {
  const uint8_t* x;
  int64_t step;
  int64_t row_stride;
  int64_t rows;

  int64_t RowsOf(int64_t tile) const {
    const int64_t left = rows - tile * kTileSide;
    return left < kTileSide ? left : kTileSide;
  }
};

static TurnedX TurnRows(const MatmulArgs* args) {
  const auto* x = static_cast<const uint8_t*>(args->xq);
  if (args->rows == 1) return {x, kRowBytes, 4, 1};  // a row's pairs are a column as they lie
  TurnedX few{reinterpret_cast<const uint8_t*>(args->scratch), kTileBytes, kRowBytes, args->rows};
  auto* out = reinterpret_cast<uint8_t*>(args->scratch);
  const int64_t stride = args->xq_groups * kRowBytes;
  for (int64_t first = 0; first < args->rows; first += kTileSide) {
    for (int64_t block = 0; block < args->xq_groups; ++block, out += kTileBytes) {
      TurnPairs(x + first * stride + block * kRowBytes, stride, few.RowsOf(first / kTileSide), out);
    }
  }
  return few;
}

// kPanels panels from `panel` on with kTiles tiles of rows. Tiles 0..3: sums, [columns, rows] of
// panel and tile of rows in turn; 4, 5: weights; 6, 7: activations. Each is loaded once for a block
// of k, and unpacking stands between products: four panels with two registers for weights, or all
// products after all unpacking, took longer. Weights are unpacked a block ahead of their load.
template <TileWeights kWeights, bool kHalf, int kPanels, int kTiles>
static void FewRowsPanels(const MatmulArgs* args, const TurnedX& x, int64_t panel) {
  constexpr int64_t kBlockBytes = TileBlock<kWeights, kHalf>::kBytes;
  alignas(64) uint8_t tiles[2][kPanels][kTileBytes];
  const PackedView& w = *args->weights;
  const auto unpack = [&](int64_t block, int p) __attribute__((always_inline)) {
    const uint8_t* from = w.data + (panel + p) * w.panel_bytes + block * kBlockBytes;
    Fetch<kBlockBytes>(from + kFetchAhead);
    UnpackBlock<kWeights, kHalf>(from, tiles[block % 2][p]);
  };
  Unrolled<kPanels * kTiles>([]<int i>() { ZeroTile<i>(); });
  Unrolled<kPanels>([&]<int p>() { unpack(0, p); });
  const uint8_t* rows = x.x;
  for (int64_t b = 0; b < w.group_count; ++b, rows += x.step) {
    Unrolled<kTiles>(
        [&]<int t>() { LoadTile<6 + t>(rows + t * w.group_count * x.step, x.row_stride); });
    Unrolled<kPanels>([&]<int p>() {
      if (b + 1 < w.group_count) unpack(b + 1, p);
      LoadTile<4 + p>(tiles[b % 2][p], kRowBytes);
      Unrolled<kTiles>([]<int t>() { AddProductBf16<p * kTiles + t, 4 + p, 6 + t>(); });
    });
  }
  Unrolled<kPanels * kTiles>([&]<int i>() {
    alignas(64) float sums[kTileSide * kTileSide];
    const int64_t column = (panel + i / kTiles) * kPanelColumns;
    const int64_t row = i % kTiles * kTileSide;
    if (x.rows == 1) {
      StoreTile<i>(sums, sizeof(float));
      StoreOutput(args, 0, column, Load(sums));
      return;
    }
    StoreTile<i>(sums, kTileSide * sizeof(float));
    Vec r[kTileSide];
    for (int64_t c = 0; c < kTileSide; ++c) r[c] = Load(sums + c * kTileSide);
    Transpose(r);
    for (int64_t k = 0; k < x.RowsOf(i % kTiles); ++k) StoreOutput(args, row + k, column, r[k]);
  });
}

template <TileWeights kWeights, bool kHalf, int kTiles>
static void FewRowsMatmul(const MatmulArgs* args) {
  const TurnedX x = TurnRows(args);
  TileShapes shapes;
  for (int i = 0; i < 4; ++i) shapes.SetTile(i, kTileSide, 4 * x.RowsOf(i % kTiles));
  for (int i = 4; i < 6; ++i) shapes.SetTile(i, kTileSide);
  for (int i = 6; i < 6 + kTiles; ++i) shapes.SetTile(i, kTileSide, 4 * x.RowsOf(i - 6));
  ConfigureTiles(shapes);
  for (int64_t panel, end; args->claim(args->claims, &panel, &end);) {
    for (; panel + 2 <= end; panel += 2) {
      FewRowsPanels<kWeights, kHalf, 2, kTiles>(args, x, panel);
    }
    if (panel < end) FewRowsPanels<kWeights, kHalf, 1, kTiles>(args, x, panel);
  }
  ReleaseTiles();
}

// Panels whose tiles leave room for passing activations in the nearest cache, in bytes.
constexpr int64_t kStayingBytes = 40 << 10;

// The sums [rows, columns] in tiles 0..3, by tile of rows and panel in turn. By way of the stack:
// rows of y often lie whole pages apart, which tile stores are slow at.
template <int kPanels, int kTiles>
static void StoreManyRows(const MatmulArgs* args, int64_t row, int64_t panel) {
  const int64_t column = panel * kPanelColumns;
  const int64_t left = args->rows - row;
  alignas(64) float sums[kTiles * kTileSide][kPanels * kTileSide];
  Unrolled<kPanels * kTiles>([&]<int i>() {
    StoreTile<i>(&sums[i / kPanels * kTileSide][i % kPanels * kTileSide], sizeof sums[0]);
  });
  for (int64_t r = 0; r < kTiles * kTileSide && r < left; ++r) {
    for (int64_t p = 0; p < kPanels; ++p) {
      StoreOutput(args, row + r, column + p * kPanelColumns, Load(&sums[r][p * kTileSide]));
    }
  }
}

// Rows [row, row + 16 * kTiles) with kPanels panels whose blocks' turned tiles lie side by side in
// `weights`. Tiles 4, 5: activations; 6, 7: weights. The rows are whole tiles in memory; what comes
// of those past the end is dropped. kPass: rows leave the nearest cache to the weights.
template <int kPanels, int kTiles, bool kPass>
static void ManyRowsBlock(const MatmulArgs* args, int64_t row, int64_t panel,
                          const uint8_t* weights) {
  const int64_t stride = args->xq_groups * kRowBytes;
  const uint8_t* x = static_cast<const uint8_t*>(args->xq) + row * stride;
  Unrolled<kPanels * kTiles>([]<int i>() { ZeroTile<i>(); });
  for (int64_t b = 0; b < args->xq_groups; ++b, x += kRowBytes, weights += kPanels * kTileBytes) {
    Unrolled<kPanels>([&]<int p>() { LoadTile<6 + p>(weights + p * kTileBytes, kRowBytes); });
    Unrolled<kTiles>([&]<int t>() {
      const uint8_t* rows = x + t * kTileSide * stride;
      if constexpr (kPass) {
        LoadTileOnce<4 + t>(rows, stride);
      } else {
        LoadTile<4 + t>(rows, stride);
      }
      Unrolled<kPanels>([]<int p>() { AddProductBf16<t * kPanels + p, 4 + t, 6 + p>(); });
    });
  }
  StoreManyRows<kPanels, kTiles>(args, row, panel);
}

template <int kPanels, bool kPass>
static void ManyRowsOf(const MatmulArgs* args, int64_t panel, const uint8_t* weights) {
  int64_t row = 0;
  for (; row + kTileSide < args->rows; row += 2 * kTileSide) {
    ManyRowsBlock<kPanels, 2, kPass>(args, row, panel, weights);
  }
  if (row < args->rows) ManyRowsBlock<kPanels, 1, kPass>(args, row, panel, weights);
}

template <TileWeights kWeights, bool kHalf, int kPanels>
static void ManyRowsPanels(const MatmulArgs* args, int64_t panel) {
  using Block = TileBlock<kWeights, kHalf>;
  const PackedView& w = *args->weights;
  auto* turned = reinterpret_cast<uint8_t*>(args->scratch);
  alignas(64) uint8_t tile[kTileBytes];
  for (int p = 0; p < kPanels; ++p) {
    const uint8_t* block = w.data + (panel + p) * w.panel_bytes;
    for (int64_t b = 0; b < w.group_count; ++b, block += Block::kBytes) {
      UnpackBlock<kWeights, kHalf>(block, tile);
      TurnPairs(tile, kRowBytes, kTileSide, turned + (b * kPanels + p) * kTileBytes);
    }
  }
  if (w.group_count * kPanels * kTileBytes <= kStayingBytes) {
    ManyRowsOf<kPanels, true>(args, panel, turned);
  } else {
    ManyRowsOf<kPanels, false>(args, panel, turned);
  }
}

template <TileWeights kWeights, bool kHalf>
static void ManyRowsMatmul(const MatmulArgs* args) {
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) shapes.SetTile(i, kTileSide);
  ConfigureTiles(shapes);
  for (int64_t panel, end; args->claim(args->claims, &panel, &end);) {
    for (; panel + 2 <= end; panel += 2) ManyRowsPanels<kWeights, kHalf, 2>(args, panel);
    if (panel < end) ManyRowsPanels<kWeights, kHalf, 1>(args, panel);
  }
  ReleaseTiles();
}

template <TileWeights kWeights, bool kHalf>
static void TileMatmul(const MatmulArgs* args) {
  if (args->rows <= kTileSide) {
    FewRowsMatmul<kWeights, kHalf, 1>(args);
  } else if (args->rows <= kFewRowsMost) {
    FewRowsMatmul<kWeights, kHalf, 2>(args);
  } else {
    ManyRowsMatmul<kWeights, kHalf>(args);
  }
}

// One row as bf16, to nearest even; elements past k are zero.
static void RoundRow(const float* x, int64_t k, void* image, int64_t row) {
  const int64_t blocks = RoundUp(k, kActivationGroup) / kActivationGroup;
  uint8_t* out = static_cast<uint8_t*>(image) + row * blocks * kRowBytes;
  for (int64_t first = 0; first < k; first += kActivationGroup, out += kRowBytes) {
    Vec v[2];
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t at = first + half * kLanes;
      v[half] = at + kLanes <= k ? Load(x + at) : at < k ? LoadPart(x + at, k - at) : Zero();
    }
    const auto pairs = _mm512_cvtne2ps_pbh(v[1], v[0]);
    __builtin_memcpy(out, &pairs, sizeof pairs);
  }
}

}  // namespace
}  // namespace tandem::ops
