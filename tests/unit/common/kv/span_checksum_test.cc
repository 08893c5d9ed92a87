#include "common/kv/span_checksum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "common/base/random.h"

namespace tandem::kv {
namespace {

std::vector<std::byte> RandomBlock(const KvLayout& layout, std::uint64_t seed) {
  std::vector<std::byte> block(static_cast<std::size_t>(layout.block_bytes().value()));
  SplitMix64 random(seed);
  for (auto& b : block) b = static_cast<std::byte>(random.Next());
  return block;
}

constexpr KvLayout kSmall{
    .num_layers = 2, .num_kv_heads = 3, .head_dim = 64, .block_size = 16, .dtype = KvDtype::kBf16};

TEST(SpanChecksum, IsTheSameByEveryKernel) {
  int fast_kernels = 0;
  for (const std::int32_t head_dim : {1, 4, 20, 32, 40, 64, 80, 96, 128, 256, 300}) {
    for (const KvDtype dtype : {KvDtype::kBf16, KvDtype::kF32}) {
      const KvLayout layout{.num_layers = 4,
                            .num_kv_heads = 2,
                            .head_dim = head_dim,
                            .block_size = 16,
                            .dtype = dtype};
      const auto block = RandomBlock(layout, static_cast<std::uint64_t>(head_dim));
      for (const std::int32_t tokens : {0, 1, 7, 16}) {
        const auto portable = SpanChecksumBy(ChecksumKernel::kPortable, layout, Layer(3),
                                             TokenIndex(48), tokens, block);
        ASSERT_TRUE(portable.has_value());
        EXPECT_EQ(SpanChecksum(layout, Layer(3), TokenIndex(48), tokens, block), *portable);
        for (ChecksumKernel kernel : {ChecksumKernel::kAvx2, ChecksumKernel::kAvx512}) {
          const auto fast = SpanChecksumBy(kernel, layout, Layer(3), TokenIndex(48), tokens, block);
          if (!fast.has_value()) continue;
          ++fast_kernels;
          EXPECT_EQ(*fast, *portable) << "head_dim " << head_dim << ", " << tokens << " tokens";
        }
      }
    }
  }
  RecordProperty("fast_kernel_comparisons", fast_kernels);
}

TEST(SpanChecksum, HasTheValueThatOtherMachinesHave) {
  const auto block = RandomBlock(kSmall, 1);
  EXPECT_EQ(SpanChecksum(kSmall, Layer(1), TokenIndex(32), 16, block), 0x614d4f722add47a6u);
}

TEST(SpanChecksum, EveryFlippedBitOfACountedTokenCountsAndNoOther) {
  const auto block = RandomBlock(kSmall, 2);
  constexpr std::int32_t kTokens = 5;
  const auto whole = SpanChecksum(kSmall, Layer(0), TokenIndex(0), kTokens, block);
  for (std::size_t i = 0; i < block.size(); ++i) {
    auto altered = block;
    altered[i] ^= std::byte{1} << (i % 8);
    const bool counted = i / 128 % 16 < kTokens;
    EXPECT_EQ(SpanChecksum(kSmall, Layer(0), TokenIndex(0), kTokens, altered) != whole, counted)
        << i;
  }
}

TEST(SpanChecksum, PartsAddUpInAnyOrder) {
  // The first seven tokens, then the rest as if they had been sent apart.
  const auto block = RandomBlock(kSmall, 3);
  std::vector<std::byte> rest(block.size());
  for (std::size_t part = 0; part < 6; ++part) {
    std::memcpy(&rest[part * 2048], &block[part * 2048 + 7 * 128], 9 * 128);
  }
  EXPECT_EQ(SpanChecksum(kSmall, Layer(1), TokenIndex(16), 7, block) +
                SpanChecksum(kSmall, Layer(1), TokenIndex(23), 9, rest),
            SpanChecksum(kSmall, Layer(1), TokenIndex(16), 16, block));
}

TEST(SpanChecksum, EveryPlaceCounts) {
  // Equal bytes everywhere: only the place can tell.
  std::vector<std::byte> block(static_cast<std::size_t>(kSmall.block_bytes().value()),
                               std::byte{3});
  const auto base = SpanChecksum(kSmall, Layer(0), TokenIndex(0), 16, block);
  EXPECT_NE(SpanChecksum(kSmall, Layer(1), TokenIndex(0), 16, block), base);
  EXPECT_NE(SpanChecksum(kSmall, Layer(0), TokenIndex(1), 16, block), base);
  // Two spans swapped: of tokens, of K and V, of heads; and two words inside one.
  const auto original = RandomBlock(kSmall, 4);
  const auto reference = SpanChecksum(kSmall, Layer(0), TokenIndex(0), 16, original);
  const std::vector<std::pair<std::size_t, std::size_t>> swaps = {{0, 128}, {0, 2048}, {0, 4096},
                                                                  {0, 8},   {0, 64},   {8, 24}};
  for (const auto& [a, b] : swaps) {
    auto swapped = original;
    const std::size_t length = b < 128 ? 8 : 128;
    for (std::size_t i = 0; i < length; ++i) std::swap(swapped[a + i], swapped[b + i]);
    EXPECT_NE(SpanChecksum(kSmall, Layer(0), TokenIndex(0), 16, swapped), reference)
        << a << " and " << b;
  }
}

TEST(SpanChecksum, ZerosDoNotHideEachOther) {
  // Zero bytes still differ by place, and one set bit in zeros is seen.
  std::vector<std::byte> block(static_cast<std::size_t>(kSmall.block_bytes().value()));
  const auto zeros = SpanChecksum(kSmall, Layer(0), TokenIndex(0), 16, block);
  EXPECT_NE(zeros, 0u);
  block[5000] = std::byte{1};
  EXPECT_NE(SpanChecksum(kSmall, Layer(0), TokenIndex(0), 16, block), zeros);
}

}  // namespace
}  // namespace tandem::kv
