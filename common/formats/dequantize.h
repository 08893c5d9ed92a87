// Turns stored elements into f32: the reference that every kernel and repacking is held to.
#pragma once

#include <cstddef>
#include <span>

#include "common/base/status.h"
#include "common/formats/dtype.h"

namespace tandem::formats {

// Writes out.size() elements. `bytes` is a run of whole blocks, of any alignment; it may be several
// rows. Each element is computed in f32 in the order that ggml's reference does: (d·scale)·q −
// dmin·m and the like, no fused steps. Errors: InvalidArgument if `bytes` is not exactly what
// out.size() elements take.
Status Dequantize(DType dtype, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace tandem::formats
