#include "common/ops/paged_kv.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tandem::ops {
namespace {

// To nearest, ties to even; a NaN stays one. No instruction's own rounding or flushing.
std::uint16_t ToBf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

void StoreRow(KvType type, const float* from, std::int64_t count, std::byte* to) {
  if (type == KvType::kF32) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  std::uint16_t* out = reinterpret_cast<std::uint16_t*>(to);
  for (std::int64_t i = 0; i < count; ++i) out[i] = ToBf16(from[i]);
}

}  // namespace

void KvAppend(const PagedKv& kv, std::span<const KvSlice> slices, const KvAppendArgs& args,
              Range rows) {
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
        StoreRow(kv.type, args.k + row * args.k_stride + head * kv.head_dim, kv.head_dim, key);
        StoreRow(kv.type, args.v + row * args.v_stride + head * kv.head_dim, kv.head_dim,
                 key + kv.block_size * kv.row_bytes());
      }
    }
    before += slice.num_rows;
  }
}

}  // namespace tandem::ops
