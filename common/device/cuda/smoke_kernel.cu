#include <cuda_runtime.h>

#include "common/device/cuda/smoke_kernel.cuh"
#include "common/device/cuda/smoke_kernel.h"

namespace tandem::device {
namespace {

struct CudaGrid {
  __device__ int block() const { return static_cast<int>(blockIdx.x); }
  __device__ int num_blocks() const { return static_cast<int>(gridDim.x); }
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ void Sync() { __syncthreads(); }
};

__global__ void SmokeSumKernel(const float* x, std::int64_t n, float* sums) {
  __shared__ float shared[kSmokeThreads];
  CudaGrid grid;
  SmokeSum(grid, x, n, shared, sums);
}

}  // namespace

Status RunSmokeSum(const MemoryRegion& x, std::int32_t num_blocks, const MemoryRegion& sums) {
  if (x.OnHost() || sums.OnHost() || x.device_index != sums.device_index || num_blocks < 1 ||
      sums.length.value() < num_blocks * std::int64_t{4}) {
    return InvalidArgument("smoke kernel: needs {} sums and its input in one GPU's memory",
                           num_blocks);
  }
  cudaError_t error = cudaSetDevice(x.device_index);
  if (error == cudaSuccess) {
    SmokeSumKernel<<<num_blocks, kSmokeThreads>>>(reinterpret_cast<const float*>(x.address),
                                                  x.length.value() / 4,
                                                  reinterpret_cast<float*>(sums.address));
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error != cudaSuccess) return Internal("smoke kernel: {}", cudaGetErrorString(error));
  return OkStatus();
}

}  // namespace tandem::device
