// The sum of each block's share of an array: shows that kernels are built, launched and
// synchronised.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define TANDEM_DEVICE __device__
#else
#define TANDEM_DEVICE
#endif

namespace tandem::device {

inline constexpr int kSmokeThreads = 64;  // of a block; a power of two

// The body, over any grid: `grid` answers block(), num_blocks(), thread() and has Sync(), a barrier
// of the block's threads. `shared` is the block's [kSmokeThreads]. Writes sums[num_blocks].
template <typename Grid>
TANDEM_DEVICE void SmokeSum(Grid& grid, const float* x, std::int64_t n, float* shared,
                            float* sums) {
  float sum = 0;
  const std::int64_t stride = std::int64_t{grid.num_blocks()} * kSmokeThreads;
  for (std::int64_t i = std::int64_t{grid.block()} * kSmokeThreads + grid.thread(); i < n;
       i += stride) {
    sum += x[i];
  }
  shared[grid.thread()] = sum;
  grid.Sync();
  for (int half = kSmokeThreads / 2; half > 0; half /= 2) {
    if (grid.thread() < half) shared[grid.thread()] += shared[grid.thread() + half];
    grid.Sync();
  }
  if (grid.thread() == 0) sums[grid.block()] = shared[0];
}

}  // namespace tandem::device
