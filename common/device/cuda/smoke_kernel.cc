#include "common/device/cuda/smoke_kernel.h"

#include <cuda_runtime.h>

#include "common/device/cuda/smoke_kernel_launch.h"

namespace tandem::device {

Status RunSmokeSum(const MemoryRegion& x, std::int32_t num_blocks, const MemoryRegion& sums) {
  constexpr std::int64_t kFloatBytes = sizeof(float);
  if (x.OnHost() || sums.OnHost() || x.device_index != sums.device_index || num_blocks < 1 ||
      sums.length.value() < num_blocks * kFloatBytes) {
    return InvalidArgument("smoke kernel: needs {} sums and its input in one GPU's memory",
                           num_blocks);
  }
  cudaError_t error = cudaSetDevice(x.device_index);
  if (error == cudaSuccess) {
    error =
        LaunchSmokeSum(reinterpret_cast<const float*>(x.address), x.length.value() / kFloatBytes,
                       num_blocks, reinterpret_cast<float*>(sums.address));
  }
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error != cudaSuccess) return Internal("smoke kernel: {}", cudaGetErrorString(error));
  return OkStatus();
}

}  // namespace tandem::device
