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

// Query rows of one tile: as many as the class takes, unless threads had too few tiles to share.
std::int64_t TileRows(const Kernels& kernels, std::span<const KvSlice> slices,
                      const AttentionArgs& args, int num_threads) {
  std::int64_t rows = 0;
  for (const KvSlice& slice : slices) rows += slice.num_rows * args.num_heads;
  const std::int64_t even = rows / (num_threads * kTilesPerThread);
  return std::clamp(even, std::min(kAttendRows, kernels.attend_rows), kernels.attend_rows);
}

// Calls fn(tile, cost) for every tile in a fixed order.
template <typename Fn>
void ForEachTile(const Kernels& kernels, const PagedKv& kv, std::span<const KvSlice> slices,
                 const AttentionArgs& args, int num_threads, Fn&& fn) {
  const std::int64_t group = args.num_heads / kv.num_kv_heads;
  const std::int64_t rows = TileRows(kernels, slices, args, num_threads);
  const std::int64_t heads = std::min(group, rows);
  const std::int64_t tokens = rows / heads;
  for (const KvSlice& slice : slices) {
    for (std::int64_t first = 0; first < slice.num_rows; first += tokens) {
      const std::int64_t count = std::min(tokens, slice.num_rows - first);
      const std::int64_t last = slice.first_position + first + count;
      const std::int64_t keys = args.window > 0 ? std::min(last, args.window + count) : last;
      for (std::int64_t kv_head = 0; kv_head < kv.num_kv_heads; ++kv_head) {
        for (std::int64_t head = 0; head < group; head += heads) {
          const std::int64_t tile_heads = std::min(heads, group - head);
          // Unpacking a chunk costs about as much as four rows' work on it.
          const std::int64_t cost =
              (keys + kKeyChunk) * (RoundUp(count * tile_heads, kernels.attend_unit) + 4);
          fn(Tile{&slice, first, count, kv_head, kv_head * group + head, tile_heads}, cost);
        }
      }
    }
  }
}

}  // namespace

void Attention(const OpsContext& context, const PagedKv& kv, std::span<const KvSlice> slices,
               const AttentionArgs& args, Share share) {
  TANDEM_CHECK(kv.type == KvTypeOf(context.numerics()));
  TANDEM_CHECK(args.num_heads % kv.num_kv_heads == 0);
  const Kernels& kernels = context.kernels();
  std::int64_t total = 0;
  ForEachTile(kernels, kv, slices, args, share.count,
              [&](const Tile&, std::int64_t cost) { total += cost; });
  // A tile belongs to the thread whose part of the total holds its middle.
  std::int64_t before = 0;
  ForEachTile(kernels, kv, slices, args, share.count, [&](const Tile& tile, std::int64_t cost) {
    const std::int64_t owner = (before + cost / 2) * share.count / total;
    before += cost;
    if (owner == share.index) RunTile(context, kv, args, tile, share.index);
  });
}

}  // namespace tandem::ops
