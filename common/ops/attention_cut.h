// How attention over a batch is cut into kernel calls: arithmetic on positions and shapes. Internal
// to ops.
#pragma once

#include <cstdint>
#include <span>

#include "common/ops/attention.h"
#include "common/ops/kernels.h"
#include "common/ops/paged_kv.h"
#include "common/ops/share.h"

namespace tandem::ops {

// Some tokens of a slice with some query heads of one KV head.
struct Tile {
  const KvSlice* slice;
  std::int64_t first;  // token within the slice
  std::int64_t tokens;
  std::int64_t kv_head;
  std::int64_t head;  // first query head
  std::int64_t heads;

  std::int64_t rows() const { return tokens * heads; }
  std::int64_t position() const { return slice->first_position + first; }
};

// The segments of kKeySegment keys that a tile's rows see.
Range SegmentsOf(const Tile& tile, std::int64_t window);

// What of a tile sees keys of one of them.
struct SegmentTile {
  Tile tile;
  std::int64_t first_row;  // of the whole tile's rows
  std::int64_t fresh_row;  // of its own rows: those from here on see no earlier segment
};
SegmentTile Segment(const Tile& tile, std::int64_t window, std::int64_t segment);

// The tiles of a batch. The same on every thread.
class Cut {
 public:
  static constexpr std::int64_t kTilesPerThread = 8;  // so that threads finish together

  // Tiles hold as many query rows as the class takes, unless threads had too few tiles to share.
  Cut(const Kernels& kernels, const PagedKv& kv, std::span<const KvSlice> slices,
      const AttentionArgs& args, int num_threads);

  std::int64_t TilesOf(const KvSlice& slice) const;
  // Tile `index` of a slice: heads first, then tokens.
  Tile At(const KvSlice& slice, std::int64_t index) const;

 private:
  std::int64_t group_;    // query heads of a KV head
  std::int64_t heads_;    // query heads of a tile, at most
  std::int64_t tokens_;   // of a tile, at most
  std::int64_t columns_;  // tiles beside one another: all heads of the same tokens
};

}  // namespace tandem::ops
