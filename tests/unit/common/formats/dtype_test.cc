#include "common/formats/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace tandem::formats {
namespace {

TEST(DType, KnowsBlockSizes) {
  EXPECT_EQ(BytesFor(DType::kF32, 3), 12);
  EXPECT_EQ(BytesFor(DType::kQ4_1, 64), 40);
  EXPECT_EQ(BytesFor(DType::kQ6_K, 256), 210);
  EXPECT_EQ(BytesFor(DType::kQ8_0, 0), 0);
}

TEST(DType, RefusesPartBlocksAndOverflow) {
  EXPECT_EQ(BytesFor(DType::kQ8_0, 33), std::nullopt);
  EXPECT_EQ(BytesFor(DType::kF32, -4), std::nullopt);
  EXPECT_EQ(BytesFor(DType::kF32, std::numeric_limits<std::int64_t>::max()), std::nullopt);
}

TEST(DType, GgufNumbersLeadBack) {
  for (const DTypeInfo& info : AllDTypes()) {
    EXPECT_EQ(&Info(info.dtype), &info);
    EXPECT_EQ(DTypeFromGguf(info.gguf_id), info.dtype);
    EXPECT_EQ(GgufTypeName(info.gguf_id), info.name);
  }
  EXPECT_EQ(DTypeFromGguf(10), std::nullopt);
  EXPECT_EQ(GgufTypeName(10), "Q2_K");
  EXPECT_EQ(GgufTypeName(4000000000u), "?");
}

TEST(F16, EveryHalfSurvivesTheWayThroughFloat) {
  for (std::uint32_t half = 0; half <= 0xffff; ++half) {
    float value = F16ToF32(static_cast<std::uint16_t>(half));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(value))));
    } else {
      ASSERT_EQ(F32ToF16(value), half) << value;
    }
  }
}

TEST(F16, RoundsToNearestEven) {
  // Between each pair of neighbours: the middle goes to the even one, a hair beside it to the
  // nearer.
  for (std::uint16_t half = 0; half < 0x7bff; ++half) {
    auto next = static_cast<std::uint16_t>(half + 1);
    float middle = (F16ToF32(half) + F16ToF32(next)) / 2;  // exact: 12 bits of mantissa
    ASSERT_EQ(F32ToF16(middle), half % 2 == 0 ? half : next);
    ASSERT_EQ(F32ToF16(std::nextafter(middle, 0.0f)), half);
    ASSERT_EQ(F32ToF16(-std::nextafter(middle, INFINITY)), 0x8000 | next);
  }
  EXPECT_EQ(F32ToF16(65519.996f), 0x7bff);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(F32ToF16(-1e30f), 0xfc00);
  EXPECT_EQ(F32ToF16(1e-30f), 0);
}

TEST(BF16, RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(F32ToBF16(1.0f), 0x3f80);
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(F32ToBF16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(BF16ToF32(F32ToBF16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace tandem::formats
