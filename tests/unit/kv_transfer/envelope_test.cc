#include "kv_transfer/ucx/envelope.h"

#include <gtest/gtest.h>

#include <string>

namespace tandem::transfer::ucx {
namespace {

Envelope Example() { return {.incarnation = 5, .base = 6, .length = 7, .payload = "some key"}; }

TEST(Envelope, OpensWhatItSealed) {
  const auto opened = Envelope::Open(Example().Seal());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->incarnation, 5u);
  EXPECT_EQ(opened->base, 6u);
  EXPECT_EQ(opened->length, 7u);
  EXPECT_EQ(opened->payload, "some key");
}

TEST(Envelope, RefusesEveryCutAndEveryFlippedBit) {
  const std::string sealed = Example().Seal();
  for (std::size_t length = 0; length < sealed.size(); ++length) {
    EXPECT_FALSE(Envelope::Open(sealed.substr(0, length)).ok()) << length;
  }
  for (std::size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    std::string altered = sealed;
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(Envelope::Open(altered).ok()) << bit;
  }
  EXPECT_FALSE(Envelope::Open(sealed + "x").ok());
  EXPECT_FALSE(Envelope::Open(std::string(1 << 20, 'x')).ok());
}

TEST(Envelope, AKeyOfAnotherLifeOrLengthIsRefused) {
  RegionDescriptor region{.id = RegionId(1), .length = ByteCount(7), .key = Example().Seal()};
  EXPECT_TRUE(OpenKey(region, 5).ok());
  EXPECT_EQ(OpenKey(region, 6).status().code(), absl::StatusCode::kFailedPrecondition);
  region.length = ByteCount(8);
  EXPECT_EQ(OpenKey(region, 5).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tandem::transfer::ucx
