#include "common/ops/paged_kv.h"

#include <algorithm>
#include <cstring>

namespace tandem::ops {
namespace {

void StoreRow(const OpsContext& context, KvType type, const float* from, std::int64_t count,
              std::byte* to) {
  if (type == KvType::kF32) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
  } else {
    context.kernels().to_bf16(from, count, reinterpret_cast<std::uint16_t*>(to));
  }
}

}  // namespace

void KvAppend(const OpsContext& context, const PagedKv& kv, std::span<const KvSlice> slices,
              const KvAppendArgs& args, Range rows) {
  std::int64_t before = 0;  // rows of earlier slices
  for (const KvSlice& slice : slices) {
    const std::int64_t end = std::min(slice.num_rows, rows.end - before);
    for (std::int64_t i = std::max<std::int64_t>(0, rows.begin - before); i < end; ++i) {
      const std::int64_t row = slice.first_row + i;
      const std::int64_t position = slice.first_position + i;
      std::byte* slot = kv.layer + slice.block_table[position / kv.block_size] * kv.block_bytes() +
                        position % kv.block_size * kv.row_bytes();
      for (std::int64_t head = 0; head < kv.num_kv_heads; ++head) {
        std::byte* key = slot + head * 2 * kv.block_size * kv.row_bytes();
        StoreRow(context, kv.type, args.k + row * args.k_stride + head * kv.head_dim, kv.head_dim,
                 key);
        StoreRow(context, kv.type, args.v + row * args.v_stride + head * kv.head_dim, kv.head_dim,
                 key + kv.block_size * kv.row_bytes());
      }
    }
    before += slice.num_rows;
  }
}

}  // namespace tandem::ops
