// Packs one panel of a quantised matrix. Internal to ops: callers use pack_panels.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/ops/kernels.h"
#include "common/ops/weight_blocks.h"

namespace tandem::ops {

// Fills all of the panel's bytes at `out`. Requires: those of PackPanels; a layout of integers.
void PackQuantizedPanel(const WeightSource& source, const PackedView& shape, std::int64_t panel,
                        std::byte* out);

}  // namespace tandem::ops
