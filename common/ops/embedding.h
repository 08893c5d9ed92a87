// Token rows of the embedding matrix, straight from the file's bytes.
#pragma once

#include <cstdint>
#include <span>

#include "common/ops/share.h"
#include "common/ops/weight_blocks.h"

namespace tandem::ops {

// out[i] = row ids[i] of `table` as f32 [k], for some i. Requires: 0 <= ids[i] < table.n.
void EmbedRows(const WeightSource& table, std::span<const std::int32_t> ids, float* out,
               Range rows);

}  // namespace tandem::ops
