// What smoke_kernel.cu gives to host code: nvcc's front end cannot read fmt's headers, so sources
// of kernels include none of ours that do, and messages are made elsewhere.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tandem::device {

// On the default stream of the current GPU. Pointers are to its memory.
cudaError_t LaunchSmokeSum(const float* x, std::int64_t n, int num_blocks, float* sums);

}  // namespace tandem::device
