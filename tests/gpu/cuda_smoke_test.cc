#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "common/device/cpu/cpu_device.h"
#include "common/device/cuda/cuda_device.h"
#include "common/device/cuda/smoke_kernel.h"

namespace tandem::device {
namespace {

TEST(CudaDeviceTest, RefusesAGpuThatIsNotThere) {
  EXPECT_EQ(CudaDevice::Open(1000).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CudaDevice::Open(-1).status().code(), absl::StatusCode::kNotFound);
}

TEST(CudaDeviceTest, CopiesComputesAndCopiesBack) {
  auto gpu = CudaDevice::Open(0);
  if (!gpu.ok()) GTEST_SKIP() << gpu.status().message();
  constexpr int kCount = 100000;
  constexpr int kBlocks = 8;
  CpuDevice cpu;
  auto host = cpu.Allocate(ByteCount(kCount * 4));
  auto result = cpu.Allocate(ByteCount(kBlocks * 4));
  auto x = (*gpu)->Allocate(ByteCount(kCount * 4));
  auto sums = (*gpu)->Allocate(ByteCount(kBlocks * 4));
  auto stream = (*gpu)->CreateStream();
  auto event = (*gpu)->CreateEvent();
  ASSERT_TRUE(host.ok() && result.ok() && x.ok() && sums.ok() && stream.ok() && event.ok());
  EXPECT_FALSE(x->region().HostView().ok());
  auto* values = reinterpret_cast<float*>(host->region().address);
  double expected = 0;
  for (int i = 0; i < kCount; ++i) {
    values[i] = static_cast<float>(i % 10);
    expected += i % 10;
  }
  ASSERT_TRUE((*stream)->Copy(x->region(), host->region()).ok());
  ASSERT_TRUE((*stream)->Record(**event).ok());
  ASSERT_TRUE((*event)->Wait().ok());
  EXPECT_TRUE(*(*event)->Done());
  const Status ran = RunSmokeSum(x->region(), kBlocks, sums->region());
  ASSERT_TRUE(ran.ok()) << ran;
  ASSERT_TRUE((*stream)->Copy(result->region(), sums->region()).ok());
  ASSERT_TRUE((*stream)->Synchronize().ok());
  double total = 0;
  for (int i = 0; i < kBlocks; ++i) total += reinterpret_cast<float*>(result->region().address)[i];
  EXPECT_EQ(total, expected);
  ASSERT_TRUE((*stream)->FillZero(sums->region()).ok());
  ASSERT_TRUE((*stream)->Copy(result->region(), sums->region()).ok());
  ASSERT_TRUE((*stream)->Synchronize().ok());
  EXPECT_EQ(reinterpret_cast<float*>(result->region().address)[0], 0);
}

}  // namespace
}  // namespace tandem::device
