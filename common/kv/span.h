// Runs of blocks: what a transfer copies. Neighbouring pairs merge, so that one span is one write
// per (layer, run) where both sides are contiguous.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/kv/ids.h"

namespace tandem::kv {

// `count` blocks from `source` go to as many from `sink`, in order.
struct CopySpan {
  BlockId source;
  BlockId sink;
  BlockCount count{0};
  bool operator==(const CopySpan&) const = default;
};

// Blocks `first`, `first + 1`, … .
struct BlockRun {
  BlockId first;
  BlockCount count{0};
  bool operator==(const BlockRun&) const = default;
};

// source[i] → sink[i] as the fewest spans, in order. Requires: equal lengths.
std::vector<CopySpan> MergeSpans(std::span<const BlockId> source, std::span<const BlockId> sink);

// The fewest runs that list `blocks` in order.
std::vector<BlockRun> MergeRuns(std::span<const BlockId> blocks);

}  // namespace tandem::kv
