// What a sampler needs of one row of logits, in orders that nothing but the row decides.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/ops/ops_context.h"

namespace tandem::ops {

// Index of the largest; ties go to the lowest index. Nothing where one is NaN. Requires: not empty.
std::optional<std::int64_t> Argmax(const OpsContext& context, std::span<const float> logits);

// out[i] = exp(logits[i] - max); returns their sum, taken over slices of 1024 in ascending order.
// `out` may be `logits`. Requires: max is the largest, out as long as logits.
double ExpSum(const OpsContext& context, std::span<const float> logits, float max,
              std::span<float> out);

}  // namespace tandem::ops
