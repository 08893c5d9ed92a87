#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "common/device/cpu/cpu_device.h"

namespace tandem::device {
namespace {

TEST(CpuDeviceTest, AllocatesZeroedAlignedHostMemory) {
  CpuDevice device;
  auto buffer = device.Allocate(ByteCount(100000));
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(buffer->memory_type(), MemoryType::kHost);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->region().address) % 64, 0u);
  auto view = buffer->region().HostView();
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->size(), 100000u);
  EXPECT_THAT(*view, ::testing::Each(std::byte{0}));
}

TEST(CpuDeviceTest, RefusesWhatCannotBeAllocated) {
  CpuDevice device;
  EXPECT_EQ(device.Allocate(ByteCount(0)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device.Allocate(ByteCount(-5)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device.Allocate(ByteCount(std::int64_t{1} << 60)).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(CpuDeviceTest, StreamsCopyAndClear) {
  CpuDevice device;
  auto from = device.Allocate(ByteCount(64));
  auto to = device.Allocate(ByteCount(64));
  auto stream = device.CreateStream();
  auto event = device.CreateEvent();
  ASSERT_TRUE(from.ok() && to.ok() && stream.ok() && event.ok());
  std::memset(from->region().address, 7, 64);
  ASSERT_TRUE((*stream)->Copy(to->region(), from->region()).ok());
  ASSERT_TRUE((*stream)->FillZero(to->region().Slice(ByteCount(32), ByteCount(32))).ok());
  ASSERT_TRUE((*stream)->Record(**event).ok());
  ASSERT_TRUE((*event)->Wait().ok());
  EXPECT_TRUE(*(*event)->Done());
  EXPECT_EQ(to->region().address[31], std::byte{7});
  EXPECT_EQ(to->region().address[32], std::byte{0});
  EXPECT_EQ((*stream)->Copy(to->region(), from->region().Slice(ByteCount(0), ByteCount(8))).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(BufferTest, MovingLeavesAnEmptyOne) {
  CpuDevice device;
  auto made = device.Allocate(ByteCount(10));
  ASSERT_TRUE(made.ok());
  Buffer a = *std::move(made);
  std::byte* address = a.region().address;
  Buffer b = std::move(a);
  EXPECT_EQ(b.region().address, address);
  EXPECT_EQ(a.size(), ByteCount(0));  // NOLINT: a moved-from buffer is empty
}

TEST(MemoryRegionTest, GpuMemoryHasNoHostView) {
  std::byte byte{};
  const MemoryRegion region{&byte, ByteCount(1), MemoryType::kCuda, 3};
  auto view = region.HostView();
  EXPECT_EQ(view.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(FromAbsl(view.status().message())), ::testing::HasSubstr("cuda"));
  CpuDevice device;
  auto stream = device.CreateStream();
  EXPECT_FALSE((*stream)->FillZero(region).ok());
}

}  // namespace
}  // namespace tandem::device
