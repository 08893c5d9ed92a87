#include "common/engine/kv_arena.h"

#include <gtest/gtest.h>

#include "common/device/cpu/cpu_device.h"
#include "common/engine/block_tails.h"

namespace tandem::engine {
namespace {

kv::KvLayout SmallLayout() {
  return {.num_layers = 3,
          .num_kv_heads = 2,
          .head_dim = 4,
          .block_size = 4,
          .dtype = kv::KvDtype::kBf16};
}

TEST(KvArenaTest, ALayersBlocksLieOneAfterAnother) {
  device::CpuDevice device;
  auto arena = KvArena::Allocate(SmallLayout(), kv::BlockCount(5), device);
  ASSERT_TRUE(arena.ok()) << arena.status();
  const ByteCount block = SmallLayout().block_bytes();
  EXPECT_EQ(arena->region().length, KvArena::RequiredBytes(SmallLayout(), kv::BlockCount(5)));
  const auto region = arena->BlockRegion(kv::Layer(1), kv::BlockId(2));
  EXPECT_EQ(region.length, block);
  EXPECT_EQ(region.address - arena->region().address, (1 * 5 + 2) * block.value());
  EXPECT_EQ(arena->LayerRegion(kv::Layer(1)).address + 2 * block.value(), region.address);
}

TEST(KvArenaTest, LiesOverMemoryOfSomebodyElse) {
  device::CpuDevice device;
  auto memory = device.Allocate(ByteCount(1 << 16));
  ASSERT_TRUE(memory.ok());
  auto arena = KvArena::Over(SmallLayout(), kv::BlockCount(5), memory->region());
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_EQ(arena->region().address, memory->region().address);
  EXPECT_EQ(arena->region().length, KvArena::RequiredBytes(SmallLayout(), kv::BlockCount(5)));
}

TEST(KvArenaTest, RefusesMemoryThatDoesNotFit) {
  device::CpuDevice device;
  auto memory = device.Allocate(ByteCount(1 << 10));
  ASSERT_TRUE(memory.ok());
  const auto over = [&](device::MemoryRegion region, kv::BlockCount blocks) {
    return KvArena::Over(SmallLayout(), blocks, region).status().code();
  };
  EXPECT_EQ(over(memory->region(), kv::BlockCount(5)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(over(memory->region(), kv::BlockCount(0)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(over(memory->region().Slice(ByteCount(2), ByteCount(1000)), kv::BlockCount(1)),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(over({}, kv::BlockCount(1)), absl::StatusCode::kInvalidArgument);
}

// A region that is not the host's may hold an arena: only the CPU's engine refuses it.
TEST(KvArenaTest, DescribesGpuMemoryWithoutTouchingIt) {
  auto* address = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
  auto arena = KvArena::Over(SmallLayout(), kv::BlockCount(5),
                             {address, ByteCount(1 << 16), device::MemoryType::kCuda, 1});
  ASSERT_TRUE(arena.ok()) << arena.status();
  const auto region = arena->BlockRegion(kv::Layer(2), kv::BlockId(4));
  EXPECT_EQ(region.type, device::MemoryType::kCuda);
  EXPECT_EQ(region.device_index, 1);
}

// What a slice leaves in the last block it begins: [slot] of the first head's keys.
std::vector<int> TailAfter(std::int64_t first, std::int64_t count) {
  const kv::KvLayout layout = SmallLayout();
  std::vector<std::byte> bytes(static_cast<std::size_t>(3 * layout.block_bytes().value()),
                               std::byte{9});
  const std::int32_t table[] = {0, 1, 2};
  const ops::PagedKv kv{bytes.data(), ops::KvType::kBf16, 2, 4, 4};
  const ops::KvSlice slice{0, count, first, table};
  ClearBlockTails(kv, {&slice, 1}, {0, 1});
  std::vector<int> kept;
  const std::int64_t block = (first + count) / 4;
  for (int slot = 0; slot < 4; ++slot) {
    const auto at = static_cast<std::size_t>(block * kv.block_bytes() + slot * kv.row_bytes());
    kept.push_back(static_cast<int>(bytes[at]));
  }
  return kept;
}

TEST(BlockTailsTest, ClearsBehindASliceThatBeginsABlock) {
  EXPECT_EQ(TailAfter(0, 1), (std::vector<int>{9, 0, 0, 0}));
  EXPECT_EQ(TailAfter(4, 3), (std::vector<int>{9, 9, 9, 0}));
  EXPECT_EQ(TailAfter(2, 4), (std::vector<int>{9, 9, 0, 0}));
}

TEST(BlockTailsTest, LeavesABlockThatTheSliceDidNotBegin) {
  EXPECT_EQ(TailAfter(1, 2), (std::vector<int>{9, 9, 9, 9}));
  EXPECT_EQ(TailAfter(5, 1), (std::vector<int>{9, 9, 9, 9}));
}

}  // namespace
}  // namespace tandem::engine
