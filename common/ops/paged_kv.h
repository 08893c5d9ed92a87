// One layer of a paged KV arena as the operators see it.
//
//   layer: [num_blocks, num_kv_heads, 2 (K, V), block_size, head_dim], elements of `type`
//
// Keys are stored after RoPE, both rounded to `type` (to nearest, ties to even).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/ops/numerics_class.h"
#include "common/ops/ops_context.h"
#include "common/ops/share.h"

namespace tandem::ops {

struct PagedKv {
  std::byte* layer = nullptr;
  KvType type = KvType::kF32;
  std::int64_t num_kv_heads = 0;
  std::int64_t block_size = 0;  // tokens
  std::int64_t head_dim = 0;

  std::int64_t row_bytes() const { return head_dim * ElementBytes(type); }
  std::int64_t block_bytes() const { return num_kv_heads * 2 * block_size * row_bytes(); }
};

// Some consecutive tokens of one sequence: rows [first_row, first_row + num_rows) of the batch,
// positions first_position and on.
struct KvSlice {
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
  std::int64_t first_position = 0;
  const std::int32_t* block_table = nullptr;  // covers first_position + num_rows - 1
};

struct KvAppendArgs {
  const float* k = nullptr;  // [rows, num_kv_heads, head_dim], row stride k_stride
  const float* v = nullptr;  // the same
  std::int64_t k_stride = 0;
  std::int64_t v_stride = 0;
};

// Stores the keys and values of some of the slices' rows, counted through all slices. Requires: no
// two slices write one slot.
void KvAppend(const OpsContext& context, const PagedKv& kv, std::span<const KvSlice> slices,
              const KvAppendArgs& args, Range rows);

}  // namespace tandem::ops
