// Decoding against the formats' definitions, one element at a time.
#include "common/ops/weight_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/unit/common/ops/ops_testing.h"

namespace tandem::ops {
namespace {

int ByteAt(const std::byte* bytes, std::int64_t at) { return std::to_integer<int>(bytes[at]); }

float HalfAt(const std::byte* bytes, std::int64_t at) {
  const int half = ByteAt(bytes, at) | ByteAt(bytes, at + 1) << 8;
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) {
    return static_cast<float>(mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                                            : sign * std::numeric_limits<double>::infinity());
  }
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>(sign * magnitude);
}

struct Element {
  int q = 0;
  float scale = 0;
  float min = 0;
};

// Element `i` of a block of 32.
Element SmallElement(WeightType type, const std::byte* block, int i) {
  Element element{.q = 0, .scale = HalfAt(block, 0)};
  if (type == WeightType::kQ8_0) {
    element.q = static_cast<std::int8_t>(ByteAt(block, 2 + i));
    return element;
  }
  const bool has_min = type == WeightType::kQ4_1 || type == WeightType::kQ5_1;
  const bool has_high = type == WeightType::kQ5_0 || type == WeightType::kQ5_1;
  int at = 2;
  if (has_min) element.min = HalfAt(block, at);
  at += has_min ? 2 : 0;
  const int high = has_high ? ByteAt(block, at + i / 8) >> i % 8 & 1 : 0;
  at += has_high ? 4 : 0;
  const int byte = ByteAt(block, at + i % 16);
  element.q = (i < 16 ? byte & 15 : byte >> 4) | high << 4;
  if (type == WeightType::kQ4_0) element.q -= 8;
  if (type == WeightType::kQ5_0) element.q -= 16;
  return element;
}

// Element `i` of a block of 256.
Element LargeElement(WeightType type, const std::byte* block, int i) {
  if (type == WeightType::kQ6_K) {
    const int half = i / 128, quarter = i % 128 / 32, l = i % 32;
    const int low = ByteAt(block, half * 64 + quarter % 2 * 32 + l);
    const int high = ByteAt(block, 128 + half * 32 + l) >> 2 * quarter & 3;
    const auto scale = static_cast<std::int8_t>(ByteAt(block, 192 + i / 16));
    return {.q = ((quarter < 2 ? low & 15 : low >> 4) | high << 4) - 32,
            .scale = HalfAt(block, 208) * static_cast<float>(scale)};
  }
  const int sub = i / 32, l = i % 32;
  const bool has_high = type == WeightType::kQ5_K;
  const auto scales = [&](int at) { return ByteAt(block, 4 + at); };
  const int scale = sub < 4 ? scales(sub) & 63 : (scales(sub + 4) & 15) | scales(sub - 4) >> 6 << 4;
  const int min = sub < 4 ? scales(sub + 4) & 63 : scales(sub + 4) >> 4 | scales(sub) >> 6 << 4;
  const int byte = ByteAt(block, (has_high ? 48 : 16) + sub / 2 * 32 + l);
  const int high = has_high ? ByteAt(block, 16 + l) >> sub & 1 : 0;
  return {.q = (sub % 2 == 0 ? byte & 15 : byte >> 4) | high << 4,
          .scale = HalfAt(block, 0) * static_cast<float>(scale),
          .min = -(HalfAt(block, 2) * static_cast<float>(min))};
}

TEST(WeightBlocksTest, EveryQuantisedTypeDecodesAsItsFormatSays) {
  constexpr std::int64_t kSize = 4096;
  for (const WeightType type : kAllTypes) {
    const WeightTypeInfo& info = Info(type);
    if (info.group == 0) continue;
    const OwnedWeights weights = RandomWeights(type, 1, kSize, 11 + static_cast<int>(type));
    std::vector<std::int8_t> q(kSize);
    std::vector<float> scale(kSize / info.group);
    std::vector<float> min(kSize / info.group);
    DecodeRow(type, weights.source.row(0), kSize, q.data(), scale.data(), min.data());
    for (std::int64_t i = 0; i < kSize; ++i) {
      const std::byte* block = weights.bytes.data() + i / info.block_elems * info.block_bytes;
      const int in_block = static_cast<int>(i % info.block_elems);
      const Element expected = info.block_elems == 32 ? SmallElement(type, block, in_block)
                                                      : LargeElement(type, block, in_block);
      ASSERT_EQ(q[i], expected.q) << TypeName(type) << " element " << i;
      ASSERT_EQ(scale[i / info.group], expected.scale) << TypeName(type) << " element " << i;
      ASSERT_EQ(min[i / info.group], expected.min) << TypeName(type) << " element " << i;
    }
  }
}

TEST(WeightBlocksTest, EveryHalfBecomesItsFloat) {
  std::vector<std::byte> halves(2 << 16);
  for (int half = 0; half < 1 << 16; ++half) {
    PutHalf(static_cast<std::uint16_t>(half), halves.data() + 2 * half);
  }
  std::vector<float> floats(1 << 16);
  DequantizeRow(WeightType::kF16, halves.data(), 1 << 16, floats.data());
  for (int half = 0; half < 1 << 16; ++half) {
    const float expected = HalfAt(halves.data(), 2 * half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(floats[half])) << half;
    } else {
      ASSERT_EQ(floats[half], expected) << half;
      ASSERT_EQ(std::signbit(floats[half]), std::signbit(expected)) << half;
    }
  }
}

TEST(WeightBlocksTest, RowsOfInterleavedHalvesAreReadInOrder) {
  OwnedWeights weights = RandomWeights(WeightType::kQ8_0, 16, 64, 5);
  weights.source.interleaved = 8;
  ASSERT_TRUE(weights.source.Validate().ok());
  const std::int64_t in_file[] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
  for (std::int64_t row = 0; row < 16; ++row) {
    EXPECT_EQ(weights.source.row(row) - weights.bytes.data(),
              in_file[row] * weights.source.row_bytes())
        << row;
  }
}

TEST(WeightBlocksTest, RefusesRunsOfInterleavedRowsThatDoNotFill) {
  OwnedWeights weights = RandomWeights(WeightType::kF32, 12, 4, 5);
  for (const std::int64_t run : {std::int64_t{-4}, std::int64_t{3}, std::int64_t{8}}) {
    weights.source.interleaved = run;
    const Status status = weights.source.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << run;
    EXPECT_NE(status.ToString().find("interleaved"), std::string::npos) << status.ToString();
  }
}

}  // namespace
}  // namespace tandem::ops
