// Causal attention over a paged KV cache, with grouped query heads and an optional sliding window.
//
// One query row of one head reads the keys from position 0 in chunks of 64: scores of a chunk,
// running maximum and sum rescaled once a chunk, values added in ascending order. Chunks without a
// visible key are skipped, and of a chunk only the visible keys count in any sum; so a row's bytes
// depend on its own position and the stored keys and values, whatever rows share the call.
// The current token's own key and value are read as stored. Behind every 2048 keys (kKeySegment) a
// row begins anew, and the parts are added in ascending order: threads may share one sequence.
#pragma once

#include <cstdint>
#include <span>

#include "common/ops/ops_context.h"
#include "common/ops/paged_kv.h"
#include "common/ops/share.h"

namespace tandem::ops {

struct AttentionArgs {
  const float* q = nullptr;   // [rows, num_heads, head_dim], row stride q_stride
  std::int64_t q_stride = 0;  // elements
  float* out = nullptr;       // [rows, num_heads, head_dim], row stride out_stride
  std::int64_t out_stride = 0;
  std::int64_t num_heads = 0;  // a multiple of kv.num_kv_heads
  float scale = 0;             // of the scores; usually 1 / sqrt(head_dim)
  std::int64_t window = 0;     // a row sees its last `window` keys, its own included; 0: all
  // Of weights that are not quantised: class amx then takes queries as the sum of two bf16, as one
  // rounded to bf16 would be the largest error. The other classes take f32 always.
  bool precise = false;
};

// Requires: every slice's keys and values appended, behind a Barrier; a Barrier between one
// attention and the next of a context; kv.type is the class's; no more threads than the context's.
// Divided by (slice, rows, KV head) and, where there are few of these, segments of keys, as
// long as AttentionParts has room for their parts (2 threads and 9 heads: 56 segments).
void Attention(const OpsContext& context, const PagedKv& kv, std::span<const KvSlice> slices,
               const AttentionArgs& args, Share share);

}  // namespace tandem::ops
