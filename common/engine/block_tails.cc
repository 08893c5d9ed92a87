#include "common/engine/block_tails.h"

#include <cstring>

namespace tandem::engine {

void ClearBlockTails(const ops::PagedKv& kv, std::span<const ops::KvSlice> slices,
                     ops::Range some) {
  for (std::int64_t i = some.begin; i < some.end; ++i) {
    const ops::KvSlice& slice = slices[static_cast<std::size_t>(i)];
    const std::int64_t end = slice.first_position + slice.num_rows;
    const std::int64_t used = end % kv.block_size;  // slots of the last block up to the slice's end
    if (used == 0 || end - used < slice.first_position) continue;
    std::byte* block = kv.layer + slice.block_table[end / kv.block_size] * kv.block_bytes();
    for (std::int64_t part = 0; part < 2 * kv.num_kv_heads; ++part) {
      std::memset(block + (part * kv.block_size + used) * kv.row_bytes(), 0,
                  static_cast<std::size_t>((kv.block_size - used) * kv.row_bytes()));
    }
  }
}

}  // namespace tandem::engine
