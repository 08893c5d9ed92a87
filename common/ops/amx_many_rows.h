// Sums of many rows: activations are the first operand, as they lie, and weights the second, with
// pairs turned, unpacked once for all rows. Included after amx_few_rows.h; internal linkage.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

// Blocks of k whose weights, of two panels, leave room for passing activations in the nearest
// cache.
constexpr int64_t kStayingBlocks = 20;
static_assert((kStayingBlocks + kTileMatmulRows / kTileSide) * 2 * kTileBytes <=
              MatmulScratchFloats(1) * 4);

static void ConfigureManyRows() {
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) shapes.SetTile(i, kTileSide);
  ConfigureTiles(shapes);
}

// Sums of 32 rows on their way out. They go a row at a time between the products of the next rows:
// storing takes as long as a third of the products otherwise. By way of memory of their own: rows
// of results often lie whole pages apart, which tile stores are slow at.
template <int kPanels, typename Put>
class LeavingRows {
 public:
  explicit LeavingRows(const Put& put) : put_(put) {}

  [[gnu::always_inline]] void PutOne() {
    if (next_ == end_) return;
    Vec of_row[kPanels];
    for (int p = 0; p < kPanels; ++p) of_row[p] = Load(sums_[next_] + p * kTileSide);
    put_.Row(first_ + next_++, of_row);
  }
  void PutAll() {
    while (next_ != end_) PutOne();
  }
  // Takes tiles 0..3, by tile of rows and panel in turn; of their rows the first `rows`.
  template <int kTiles>
  void Take(int64_t first, int64_t rows) {
    PutAll();
    Unrolled<kPanels * kTiles>([&]<int i>() {
      StoreTile<i>(&sums_[i / kPanels * kTileSide][i % kPanels * kTileSide], sizeof sums_[0]);
    });
    first_ = first;
    next_ = 0;
    end_ = rows < kTiles * kTileSide ? rows : kTiles * kTileSide;
  }

 private:
  alignas(64) float sums_[2 * kTileSide][kPanels * kTileSide];
  const Put& put_;
  int64_t first_ = 0;
  int64_t next_ = 0;
  int64_t end_ = 0;
};

// Some blocks of k: their weights' turned tiles, those of all panels side by side, and the sums
// [tiles of rows, panels] of the blocks before and of these too.
struct SomeBlocks {
  int64_t begin;
  int64_t end;
  int64_t all;
  const uint8_t* weights;
  uint8_t* sums;
};

// 16 * kTiles rows from `row` on. Tiles 0..3: sums, by tile of rows and panel in turn; 4, 5:
// activations; 6, 7: weights. The rows are whole tiles in memory; what comes of those past the end
// is dropped. Rows leave the nearest cache to the weights.
template <int kPanels, int kTiles, typename Put>
static void ManyRowsBlock(const MatmulArgs* args, int64_t row, const SomeBlocks& blocks,
                          LeavingRows<kPanels, Put>& leaving) {
  const int64_t stride = args->xq_groups * kTileBytes;
  const uint8_t* x =
      static_cast<const uint8_t*>(args->xq) + row / kTileSide * stride + blocks.begin * kTileBytes;
  uint8_t* sums = blocks.sums + row / kTileSide * kPanels * kTileBytes;
  Unrolled<kPanels * kTiles>([&]<int i>() {
    if (blocks.begin == 0) {
      ZeroTile<i>();
    } else {
      LoadTile<i>(sums + i * kTileBytes, kRowBytes);
    }
  });
  const uint8_t* weights = blocks.weights;
  for (int64_t b = blocks.begin; b < blocks.end; ++b) {
    Unrolled<kPanels>([&]<int p>() { LoadTile<6 + p>(weights + p * kTileBytes, kRowBytes); });
    Unrolled<kTiles>([&]<int t>() {
      LoadTileOnce<4 + t>(x + t * stride, kRowBytes);
      AddProductBf16<t * kPanels, 4 + t, 6>();
      leaving.PutOne();
      if constexpr (kPanels == 2) AddProductBf16<t * kPanels + 1, 4 + t, 7>();
    });
    x += kTileBytes;
    weights += kPanels * kTileBytes;
  }
  if (blocks.end == blocks.all) {
    leaving.template Take<kTiles>(row, args->rows - row);
  } else {
    Unrolled<kPanels * kTiles>([&]<int i>() { StoreTile<i>(sums + i * kTileBytes, kRowBytes); });
  }
}

// Panels with all rows, some blocks of k after another: as many as the nearest cache holds weights
// of. Sums wait in memory meanwhile.
template <TileWeights kWeights, bool kHalf, int kPanels, typename Put>
static void ManyRowsPanels(const MatmulArgs* args, const Panels<kPanels>& panels, const Put& put) {
  using Block = TileBlock<kWeights, kHalf>;
  const int64_t all = args->xq_groups;
  const int64_t parts = (all + kStayingBlocks - 1) / kStayingBlocks;
  auto* turned = reinterpret_cast<uint8_t*>(args->scratch);
  uint8_t* sums = turned + kStayingBlocks * 2 * kTileBytes;
  LeavingRows<kPanels, Put> leaving(put);
  for (int64_t part = 0; part < parts; ++part) {
    const SomeBlocks blocks{all * part / parts, all * (part + 1) / parts, all, turned, sums};
    uint8_t* out = turned;
    for (int64_t b = blocks.begin; b < blocks.end; ++b) {
      for (int p = 0; p < kPanels; ++p, out += kTileBytes) {
        UnpackBlockTurned<kWeights, kHalf>(panels.data[p] + b * Block::kBytes, out);
      }
    }
    int64_t row = 0;
    for (; row + kTileSide < args->rows; row += 2 * kTileSide) {
      ManyRowsBlock<kPanels, 2>(args, row, blocks, leaving);
    }
    if (row < args->rows) ManyRowsBlock<kPanels, 1>(args, row, blocks, leaving);
  }
  leaving.PutAll();
}

}  // namespace
}  // namespace tandem::ops
