#include "common/ops/attention_cut.h"

#include <algorithm>

namespace tandem::ops {

Range SegmentsOf(const Tile& tile, std::int64_t window) {
  const std::int64_t first_key =
      window > 0 ? std::max<std::int64_t>(0, tile.position() - window + 1) : 0;
  return {first_key / kKeySegment, (tile.position() + tile.tokens - 1) / kKeySegment + 1};
}

SegmentTile Segment(const Tile& tile, std::int64_t window, std::int64_t segment) {
  // The first token at or behind a position.
  const auto token_at = [&](std::int64_t position) {
    return std::clamp<std::int64_t>(position - tile.position(), 0, tile.tokens);
  };
  const std::int64_t keys = segment * kKeySegment;
  const std::int64_t begin = token_at(keys);
  const std::int64_t end = window > 0 ? token_at(keys + kKeySegment + window - 1) : tile.tokens;
  std::int64_t fresh = begin;
  if (segment > 0) fresh = window > 0 ? std::clamp(token_at(keys + window - 1), begin, end) : end;
  SegmentTile result = {tile, begin * tile.heads, (fresh - begin) * tile.heads};
  result.tile.first += begin;
  result.tile.tokens = end - begin;
  return result;
}

Cut::Cut(const Kernels& kernels, const PagedKv& kv, std::span<const KvSlice> slices,
         const AttentionArgs& args, int num_threads) {
  std::int64_t all = 0;
  for (const KvSlice& slice : slices) all += slice.num_rows * args.num_heads;
  const std::int64_t rows =
      std::clamp(all / (num_threads * kTilesPerThread), std::min(kAttendRows, kernels.attend_rows),
                 kernels.attend_rows);
  group_ = args.num_heads / kv.num_kv_heads;
  heads_ = std::min(group_, rows);
  tokens_ = rows / heads_;
  columns_ = kv.num_kv_heads * ((group_ + heads_ - 1) / heads_);
}

std::int64_t Cut::TilesOf(const KvSlice& slice) const {
  return (slice.num_rows + tokens_ - 1) / tokens_ * columns_;
}

Tile Cut::At(const KvSlice& slice, std::int64_t index) const {
  const std::int64_t parts = (group_ + heads_ - 1) / heads_;  // of a group
  const std::int64_t first = index / columns_ * tokens_;
  const std::int64_t kv_head = index % columns_ / parts;
  const std::int64_t head = index % parts * heads_;
  return {&slice,
          first,
          std::min(tokens_, slice.num_rows - first),
          kv_head,
          kv_head * group_ + head,
          std::min(heads_, group_ - head)};
}

}  // namespace tandem::ops
