#include <gtest/gtest.h>

#include <vector>

#include "common/device/cuda/smoke_kernel.cuh"
#include "tests/gpu/grid_emulator.h"

namespace tandem::testing {
namespace {

// Sums of whole numbers, so that every order of additions gives the same.
TEST(EmulatedSmokeKernelTest, BlocksSumTheirSharesOfAnyLength) {
  for (std::int64_t n : {0, 1, 63, 64, 65, 1000}) {
    for (int blocks : {1, 3}) {
      std::vector<float> x(static_cast<std::size_t>(n));
      float expected = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        x[static_cast<std::size_t>(i)] = static_cast<float>(i % 100);
        expected += static_cast<float>(i % 100);
      }
      std::vector<float> sums(static_cast<std::size_t>(blocks), -1);
      RunGrid(blocks, device::kSmokeThreads, device::kSmokeThreads,
              [&](EmulatedGrid& grid, float* shared) {
                device::SmokeSum(grid, x.data(), n, shared, sums.data());
              });
      float total = 0;
      for (float sum : sums) total += sum;
      EXPECT_EQ(total, expected) << n << " elements, " << blocks << " blocks";
    }
  }
}

}  // namespace
}  // namespace tandem::testing
