// Writes weights in the panel layouts of kernels.h, whole panels of 16 rows at a time.
#pragma once

#include <cstddef>

#include "common/ops/kernels.h"
#include "common/ops/share.h"
#include "common/ops/weight_blocks.h"

namespace tandem::ops {

// Fills the bytes of `panels` of the matrix that `shape` describes (its data is not looked at);
// `out` is where the first of them begins. Every byte is written, so `out` need not be zero, and
// each is a function of source and shape alone: panels may be packed in any order, by any thread.
// A new layout of integers is a case of StoreValues in pack_quantized.cc.
// Requires: source is valid, shape is PackedMatrix::ShapeOf it, the panels exist.
void PackPanels(const WeightSource& source, const PackedView& shape, Range panels, std::byte* out);

}  // namespace tandem::ops
