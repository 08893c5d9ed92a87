// Launches the smoke kernel of smoke_kernel.cuh on a GPU.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "common/device/device.h"

namespace tandem::device {

// sums[block] of x[n] on the device's default stream, waited for. Requires: both regions are of one
// GPU's memory, f32. Errors: InvalidArgument; Internal with CUDA's own message.
Status RunSmokeSum(const MemoryRegion& x, std::int32_t num_blocks, const MemoryRegion& sums);

}  // namespace tandem::device
