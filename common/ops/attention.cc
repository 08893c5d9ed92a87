#include "common/ops/attention.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::ops {
namespace {

constexpr std::int64_t kMaxAttendRows = std::max(kAttendRows, kAmxAttendRows);
constexpr std::int64_t kTilesPerThread = 8;  // so that threads finish together

// One kernel call: some tokens of a slice with some query heads of one KV head.
struct Tile {
  const KvSlice* slice;
  std::int64_t first;  // token within the slice
  std::int64_t tokens;
  std::int64_t kv_head;
  std::int64_t head;  // first query head
  std::int64_t heads;
};

void RunTile(const OpsContext& context, const PagedKv& kv, const AttentionArgs& args,
             const Tile& tile, int thread_idx) {
  const float* q[kMaxAttendRows];
  float* out[kMaxAttendRows];
  std::int32_t positions[kMaxAttendRows];
  std::int64_t rows = 0;
  for (std::int64_t token = 0; token < tile.tokens; ++token) {
    const std::int64_t row = tile.slice->first_row + tile.first + token;
    for (std::int64_t head = tile.head; head < tile.head + tile.heads; ++head, ++rows) {
      q[rows] = args.q + row * args.q_stride + head * kv.head_dim;
      out[rows] = args.out + row * args.out_stride + head * kv.head_dim;
      positions[rows] = static_cast<std::int32_t>(tile.slice->first_position + tile.first + token);
    }
  }
  AttendArgs call{};
  call.rows = rows;
  call.q = q;
  call.out = out;
  call.position = positions;
  call.window = args.window;
  call.scale = args.scale;
  call.head_dim = kv.head_dim;
  call.block_size = kv.block_size;
  call.block_bytes = kv.block_bytes();
  call.kv = reinterpret_cast<const std::uint8_t*>(kv.layer) +
            tile.kv_head * 2 * kv.block_size * kv.row_bytes();
  call.block_table = tile.slice->block_table;
  call.scratch = context.scratch(thread_idx);
  context.kernels().attend(&call);
}

// How a batch is cut into tiles, the same on every thread.
struct Cut {
  std::int64_t tokens;   // of a tile, at most
  std::int64_t heads;    // query heads of a tile, at most
  std::int64_t group;    // query heads of a KV head
  std::int64_t columns;  // tiles beside one another: all heads of the same tokens

  std::int64_t TilesOf(const KvSlice& slice) const {
    return (slice.num_rows + tokens - 1) / tokens * columns;
  }
  // Tile `index` of a slice: heads first, then tokens.
  Tile At(const KvSlice& slice, std::int64_t index) const {
    const std::int64_t parts = (group + heads - 1) / heads;  // of a group
    const std::int64_t first = index / columns * tokens;
    const std::int64_t kv_head = index % columns / parts;
    const std::int64_t head = index % parts * heads;
    return {&slice,
            first,
            std::min(tokens, slice.num_rows - first),
            kv_head,
            kv_head * group + head,
            std::min(heads, group - head)};
  }
};

// Tiles hold as many query rows as the class takes, unless threads had too few tiles to share.
Cut CutOf(const Kernels& kernels, const PagedKv& kv, std::span<const KvSlice> slices,
          const AttentionArgs& args, int num_threads) {
  std::int64_t all = 0;
  for (const KvSlice& slice : slices) all += slice.num_rows * args.num_heads;
  const std::int64_t rows =
      std::clamp(all / (num_threads * kTilesPerThread), std::min(kAttendRows, kernels.attend_rows),
                 kernels.attend_rows);
  const std::int64_t group = args.num_heads / kv.num_kv_heads;
  const std::int64_t heads = std::min(group, rows);
  return {rows / heads, heads, group, kv.num_kv_heads * ((group + heads - 1) / heads)};
}

}  // namespace

void Attention(const OpsContext& context, const PagedKv& kv, std::span<const KvSlice> slices,
               const AttentionArgs& args, Share share) {
  TANDEM_CHECK(kv.type == KvTypeOf(context.numerics()));
  TANDEM_CHECK(args.num_heads % kv.num_kv_heads == 0);
  const Cut cut = CutOf(context.kernels(), kv, slices, args, share.count());
  std::int64_t total = 0;
  for (const KvSlice& slice : slices) total += cut.TilesOf(slice);
  share.ForEach(total, [&](Range some) {
    std::int64_t before = 0;
    for (const KvSlice& slice : slices) {
      const std::int64_t tiles = cut.TilesOf(slice);
      const std::int64_t end = std::min(tiles, some.end - before);
      for (std::int64_t i = std::max<std::int64_t>(0, some.begin - before); i < end; ++i) {
        RunTile(context, kv, args, cut.At(slice, i), share.index);
      }
      before += tiles;
    }
  });
}

}  // namespace tandem::ops
