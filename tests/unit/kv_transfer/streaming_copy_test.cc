#include "kv_transfer/streaming_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "common/base/random.h"

namespace tandem::transfer {
namespace {

TEST(StreamingCopy, EqualsMemcpyAtEveryAlignmentAndLength) {
  constexpr std::size_t kSize = 9000;
  std::vector<std::byte> from(kSize);
  SplitMix64 random(3);
  for (auto& b : from) b = static_cast<std::byte>(random.Next());
  for (int round = 0; round < 3000; ++round) {
    const std::size_t length = random.Below(kSize / 2);
    const std::size_t a = random.Below(kSize / 2);
    const std::size_t b = random.Below(kSize / 2);
    std::vector<std::byte> expected(kSize, std::byte{7}), to(kSize, std::byte{7});
    std::memcpy(&expected[b], &from[a], length);
    StreamingCopy(&to[b], &from[a], length);
    StreamingFence();
    ASSERT_EQ(to, expected) << length << " bytes from " << a << " to " << b;
  }
}

}  // namespace
}  // namespace tandem::transfer
