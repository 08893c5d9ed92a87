// Sums of few rows, up to 32: weights are the first operand, as they are unpacked, and activations
// the second, with pairs turned. Included after simd_matmul.h, amx_tiles.h and amx_unpack.h;
// internal linkage.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

static_assert(kTileSide == kActivationRows && kTileSide == kPanelColumns);

constexpr int64_t kFewRowsMost = 2 * kTileSide;
constexpr int64_t kRowBytes = 64;      // of a tile: 32 elements
constexpr int64_t kFetchAhead = 1024;  // bytes

// Packed panels whose sums are computed side by side.
template <int kPanels>
struct Panels {
  const uint8_t* data[kPanels];
  int64_t bytes;  // of a panel
  int64_t step;   // to the panel that most likely takes its place next
};

// Activations as second operands: tile `t` of block `b` at (t * blocks + b) * kTileBytes, with
// pairs turned: 16 pairs of elements by 16 rows, or by 8 where there are no more. Of a single row
// the pairs are a column as they lie.
struct FewActivations {
  const uint8_t* x;
  int64_t rows;
  int64_t blocks;

  explicit FewActivations(const MatmulArgs* args)
      : x(static_cast<const uint8_t*>(args->xq)), rows(args->rows), blocks(args->xq_groups) {}
  int64_t Stride() const { return rows == 1 ? 4 : TurnedLineBytes(rows); }
  int64_t RowsOf(int64_t tile) const {
    const int64_t left = rows - tile * kTileSide;
    return left < kTileSide ? left : kTileSide;
  }
};

// Tiles for FewRowsPanels with as many rows.
template <int kTiles>
static void ConfigureFewRows(const FewActivations& x) {
  TileShapes shapes;
  for (int i = 0; i < 4; ++i) shapes.SetTile(i, kTileSide, 4 * x.RowsOf(i % kTiles));
  for (int i = 4; i < 6; ++i) shapes.SetTile(i, kTileSide);
  for (int i = 6; i < 6 + kTiles; ++i) shapes.SetTile(i, kTileSide, 4 * x.RowsOf(i - 6));
  ConfigureTiles(shapes);
}

// What put takes of tiles 0..3: of a single row the sums of 16 columns of each panel, else squares
// [columns, rows].
template <int kPanels, int kTiles, typename Put>
static void PutFewRows(const FewActivations& x, const Put& put) {
  alignas(64) float sums[kPanels][kTileSide * kTileSide];
  if (x.rows == 1) {
    Vec of_row[kPanels];
    Unrolled<kPanels>([&]<int p>() {
      StoreTile<p * kTiles>(sums[p], sizeof(float));
      of_row[p] = Load(sums[p]);
    });
    put.Row(0, of_row);
    return;
  }
  Unrolled<kTiles>([&]<int t>() {
    Unrolled<kPanels>(
        [&]<int p>() { StoreTile<p * kTiles + t>(sums[p], kTileSide * sizeof(float)); });
    put.Square(t * kTileSide, x.RowsOf(t), sums);
  });
}

// Panels with kTiles tiles of rows. Tiles 0..3: sums, [columns, rows] of panel and tile of rows in
// turn; 4, 5: weights; 6, 7: activations. Each is loaded once for a block of k, and unpacking
// stands between products: four panels with two registers for weights, or all products after all
// unpacking, took longer. Weights are unpacked a block ahead of their load.
template <TileWeights kWeights, bool kHalf, int kTiles, int kPanels, typename Put>
static void FewRowsPanels(const FewActivations& x, const Panels<kPanels>& panels, const Put& put) {
  constexpr int64_t kBlockBytes = TileBlock<kWeights, kHalf>::kBytes;
  alignas(64) uint8_t tiles[2][kPanels][kTileBytes];
  Factors<kWeights, kHalf> factors[2][kPanels];
  const auto unpack = [&](int64_t block, int p) __attribute__((always_inline)) {
    const uint8_t* from = panels.data[p] + block * kBlockBytes;
    const bool past = block * kBlockBytes + kFetchAhead >= panels.bytes;
    Fetch<kBlockBytes>(from + kFetchAhead + (past ? panels.step - panels.bytes : 0));
    UnpackBlock<kWeights, kHalf>(from, factors[block % 2][p], tiles[block % 2][p]);
    if (block + 1 < x.blocks) factors[(block + 1) % 2][p].Expand(from + kBlockBytes);
  };
  Unrolled<kPanels * kTiles>([]<int i>() { ZeroTile<i>(); });
  Unrolled<kPanels>([&]<int p>() {
    factors[0][p].Expand(panels.data[p]);
    unpack(0, p);
  });
  const uint8_t* rows = x.x;
  const int64_t stride = x.Stride();
  for (int64_t b = 0; b < x.blocks; ++b, rows += kTileBytes) {
    Unrolled<kTiles>([&]<int t>() { LoadTile<6 + t>(rows + t * x.blocks * kTileBytes, stride); });
    Unrolled<kPanels>([&]<int p>() {
      if (b + 1 < x.blocks) unpack(b + 1, p);
      LoadTile<4 + p>(tiles[b % 2][p], kRowBytes);
      Unrolled<kTiles>([]<int t>() { AddProductBf16<p * kTiles + t, 4 + p, 6 + t>(); });
    });
  }
  PutFewRows<kPanels, kTiles>(x, put);
}

}  // namespace
}  // namespace tandem::ops
