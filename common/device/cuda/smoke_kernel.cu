#include <cuda_runtime.h>

#include "common/device/cuda/smoke_kernel.cuh"
#include "common/device/cuda/smoke_kernel_launch.h"

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

cudaError_t LaunchSmokeSum(const float* x, std::int64_t n, int num_blocks, float* sums) {
  SmokeSumKernel<<<num_blocks, kSmokeThreads>>>(x, n, sums);
  return cudaGetLastError();
}

}  // namespace tandem::device
