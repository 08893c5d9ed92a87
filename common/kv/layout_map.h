// Turns blocks of a source's arena into bytes of a sink's. Today both layouts are equal, so a
// (layer, run of blocks) is one piece on both sides; tensor-parallel degrees, block sizes and head
// splits that differ will give more pieces from the same calls.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/kv/ids.h"
#include "common/kv/layout.h"
#include "common/kv/span.h"

namespace tandem::kv {

// `length` bytes at an offset of the source's arena, and of the sink's.
struct BytePiece {
  ByteCount source;
  ByteCount sink;
  ByteCount length;
  bool operator==(const BytePiece&) const = default;
};

class LayoutMap {
 public:
  // Errors: FailedPrecondition naming the first field that differs.
  static StatusOr<LayoutMap> Make(const KvLayout& source, const KvLayout& sink);

  // Appends the pieces of one layer of `spans`. Requires: block ids inside the arenas.
  void Pieces(Layer layer, std::span<const CopySpan> spans, BlockCount source_blocks,
              BlockCount sink_blocks, std::vector<BytePiece>& out) const;

 private:
  explicit LayoutMap(const KvLayout& layout) : layout_(layout) {}
  KvLayout layout_;
};

}  // namespace tandem::kv
