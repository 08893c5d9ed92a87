#include "common/ops/attention.h"

#include <algorithm>
#include <optional>

#include "common/base/check.h"
#include "common/ops/attention_calls.h"
#include "common/ops/attention_cut.h"
#include "common/ops/attention_parts.h"

namespace tandem::ops {
namespace {

// How threads divide a batch: by tiles or, where these are few and long, by their segments.
struct Division {
  std::int64_t units;
  bool by_segments;
};

Division DivisionOf(const Cut& cut, std::span<const KvSlice> slices, std::int64_t window,
                    const Share& share, const AttentionParts& parts) {
  std::int64_t tiles = 0;
  for (const KvSlice& slice : slices) tiles += cut.TilesOf(slice);
  if (tiles > share.count() * Cut::kTilesPerThread) return {tiles, false};
  std::int64_t units = 0;
  std::int64_t rows = 0;
  for (const KvSlice& slice : slices) {
    for (std::int64_t i = 0; i < cut.TilesOf(slice); ++i) {
      const Tile tile = cut.At(slice, i);
      const Range segments = SegmentsOf(tile, window);
      units += segments.end - segments.begin;
      rows += (segments.end - segments.begin) * tile.rows();
    }
  }
  if (units == tiles || rows > parts.rows()) return {tiles, false};
  return {units, true};
}

void RunTiles(const CallMaker& maker, const Cut& cut, std::span<const KvSlice> slices, Range some) {
  CallList calls(maker);
  std::optional<Tile> after;
  std::int64_t before = 0;
  for (const KvSlice& slice : slices) {
    const std::int64_t tiles = cut.TilesOf(slice);
    const std::int64_t end = std::min(tiles, some.end - before);
    for (std::int64_t i = std::max<std::int64_t>(0, some.begin - before); i < end; ++i) {
      const Tile tile = cut.At(slice, i);
      const Range segments = SegmentsOf(tile, maker.window());
      if (segments.end - segments.begin == 1) {
        calls.Add(tile);
      } else {
        calls.Finish(&tile);
        LongTile(maker, tile, maker.thread_idx() * AttentionParts::kRowsPerThread).RunAll();
      }
    }
    if (before <= some.end && some.end < before + tiles) after = cut.At(slice, some.end - before);
    before += tiles;
  }
  calls.Finish(after.has_value() ? &*after : nullptr);
}

void RunSegments(const CallMaker& maker, const Cut& cut, std::span<const KvSlice> slices,
                 Range some) {
  CallList calls(maker);
  std::int64_t before = 0;  // units
  std::int64_t tile_idx = 0;
  std::int64_t row = 0;
  for (const KvSlice& slice : slices) {
    for (std::int64_t i = 0; i < cut.TilesOf(slice); ++i, ++tile_idx) {
      const Tile tile = cut.At(slice, i);
      const Range segments = SegmentsOf(tile, maker.window());
      const std::int64_t count = segments.end - segments.begin;
      const std::int64_t end = std::min(count, some.end - before);
      for (std::int64_t j = std::max<std::int64_t>(0, some.begin - before); j < end; ++j) {
        if (count == 1) {
          calls.Add(tile);
        } else {
          LongTile(maker, tile, row).RunOne(j, &maker.context().attention_parts().done(tile_idx));
        }
      }
      before += count;
      row += count * tile.rows();
    }
  }
  calls.Finish(nullptr);
}

}  // namespace

void Attention(const OpsContext& context, const PagedKv& kv, std::span<const KvSlice> slices,
               const AttentionArgs& args, Share share) {
  TANDEM_CHECK(kv.type == KvTypeOf(context.numerics()));
  TANDEM_CHECK(args.num_heads % kv.num_kv_heads == 0);
  TANDEM_CHECK(share.count() * AttentionParts::kRowsPerThread <= context.attention_parts().rows());
  const Cut cut(context.kernels(), kv, slices, args, share.count());
  const CallMaker maker(context, kv, args, share.index);
  const Division division = DivisionOf(cut, slices, args.window, share, context.attention_parts());
  share.ForEach(division.units, [&](Range some) {
    if (division.by_segments) {
      RunSegments(maker, cut, slices, some);
    } else {
      RunTiles(maker, cut, slices, some);
    }
  });
}

}  // namespace tandem::ops
