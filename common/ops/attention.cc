#include "common/ops/attention.h"

#include <algorithm>
#include <optional>

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

// A thread's tiles on their way to the kernel, as many at a time as one call's rows allow.
class CallList {
 public:
  CallList(const OpsContext& context, const PagedKv& kv, const AttentionArgs& args, int thread_idx)
      : context_(context), kv_(kv), args_(args), thread_idx_(thread_idx) {}

  void Add(const Tile& tile) {
    Make(tile);
    if (count_ == kMaxCalls || first_row_[count_ + 1] > kMaxAttendRows) {
      Run(&calls_[count_]);
      Make(tile);
    }
    ++count_;
  }
  // `after`: what this thread is likely to add next, or null.
  void Finish(const Tile* after) {
    if (after != nullptr) Make(*after);
    Run(after != nullptr ? &calls_[count_] : nullptr);
  }

 private:
  static constexpr std::int64_t kMaxCalls = 64;

  void Make(const Tile& tile);
  void Run(const AttendArgs* after) {
    context_.kernels().attend(calls_, count_, after);
    count_ = 0;
  }

  const OpsContext& context_;
  const PagedKv& kv_;
  const AttentionArgs& args_;
  int thread_idx_;
  std::int64_t count_ = 0;
  std::int64_t first_row_[kMaxCalls + 2] = {};  // of each call, in the arrays below
  AttendArgs calls_[kMaxCalls + 1];
  const float* q_[2 * kMaxAttendRows];
  float* out_[2 * kMaxAttendRows];
  std::int32_t positions_[2 * kMaxAttendRows];
};

// The call of `tile`, behind those that are there.
void CallList::Make(const Tile& tile) {
  const std::int64_t first = first_row_[count_];
  std::int64_t end = first;
  for (std::int64_t token = 0; token < tile.tokens; ++token) {
    const std::int64_t row = tile.slice->first_row + tile.first + token;
    for (std::int64_t head = tile.head; head < tile.head + tile.heads; ++head, ++end) {
      q_[end] = args_.q + row * args_.q_stride + head * kv_.head_dim;
      out_[end] = args_.out + row * args_.out_stride + head * kv_.head_dim;
      positions_[end] = static_cast<std::int32_t>(tile.slice->first_position + tile.first + token);
    }
  }
  first_row_[count_ + 1] = end;
  calls_[count_] = {
      .rows = end - first,
      .q = q_ + first,
      .out = out_ + first,
      .position = positions_ + first,
      .window = args_.window,
      .scale = args_.scale,
      .head_dim = kv_.head_dim,
      .block_size = kv_.block_size,
      .block_bytes = kv_.block_bytes(),
      .kv = reinterpret_cast<const std::uint8_t*>(kv_.layer) +
            tile.kv_head * 2 * kv_.block_size * kv_.row_bytes(),
      .block_table = tile.slice->block_table,
      .scratch = context_.scratch(thread_idx_),
  };
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
    CallList calls(context, kv, args, share.index);
    std::optional<Tile> after;
    std::int64_t before = 0;
    for (const KvSlice& slice : slices) {
      const std::int64_t tiles = cut.TilesOf(slice);
      const std::int64_t end = std::min(tiles, some.end - before);
      for (std::int64_t i = std::max<std::int64_t>(0, some.begin - before); i < end; ++i) {
        calls.Add(cut.At(slice, i));
      }
      if (before <= some.end && some.end < before + tiles) after = cut.At(slice, some.end - before);
      before += tiles;
    }
    calls.Finish(after.has_value() ? &*after : nullptr);
  });
}

}  // namespace tandem::ops
