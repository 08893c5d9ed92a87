#include "tests/testing/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "common/base/random.h"

namespace tandem::testing {
namespace {

using formats::DType;

std::vector<float> Values(std::uint64_t seed, float low, float high) {
  SplitMix64 random(seed);
  std::vector<float> out(4096);
  for (float& x : out) x = low + (high - low) * static_cast<float>(random.Unit());
  return out;
}

double WorstError(DType dtype, const std::vector<float>& values) {
  std::vector<float> back = Dequantized(dtype, Quantize(dtype, values));
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    worst = std::max(worst, std::fabs(double{back[i]} - values[i]));
  }
  return worst;
}

// Half a step of the widest block, plus what the rounding of scales costs; values lie in [-1, 1].
TEST(Quantize, ErrorStaysWithinTheTypesStep) {
  const std::map<DType, double> bounds = {
      {DType::kF32, 0.0},        {DType::kF16, 0x1p-12},    {DType::kBF16, 0x1p-9},
      {DType::kQ4_0, 1.0 / 7.9}, {DType::kQ4_1, 1.0 / 14},  {DType::kQ5_0, 1.0 / 15.9},
      {DType::kQ5_1, 1.0 / 30},  {DType::kQ8_0, 1.0 / 250}, {DType::kQ4_K, 1.0 / 11},
      {DType::kQ5_K, 1.0 / 20},  {DType::kQ6_K, 1.0 / 30}};
  ASSERT_EQ(bounds.size(), formats::AllDTypes().size());
  for (const auto& [dtype, bound] : bounds) {
    EXPECT_LE(WorstError(dtype, Values(5, -1, 1)), bound) << formats::Name(dtype);
  }
}

TEST(Quantize, KeepsZerosAndConstantBlocks) {
  for (const formats::DTypeInfo& info : formats::AllDTypes()) {
    std::vector<float> zeros(256, 0.0f);
    EXPECT_EQ(Dequantized(info.dtype, Quantize(info.dtype, zeros)), zeros) << info.name;
    std::vector<float> ones(256, 1.0f);
    for (float x : Dequantized(info.dtype, Quantize(info.dtype, ones))) {
      ASSERT_NEAR(x, 1.0f, 0.01f) << info.name;
    }
  }
}

TEST(Quantize, UsesMinimumsWhereTheTypeHasThem) {
  // All values in [0.5, 1]: a type with a minimum spends its steps there alone.
  std::vector<float> values = Values(9, 0.5f, 1.0f);
  EXPECT_LT(WorstError(DType::kQ4_1, values), WorstError(DType::kQ4_0, values) / 2);
  EXPECT_LT(WorstError(DType::kQ5_1, values), WorstError(DType::kQ5_0, values) / 2);
}

TEST(DTypeForRows, FallsBackAsQuantisersDo) {
  EXPECT_EQ(DTypeForRows(DType::kQ4_K, 512), DType::kQ4_K);
  EXPECT_EQ(DTypeForRows(DType::kQ4_K, 576), DType::kQ5_0);
  EXPECT_EQ(DTypeForRows(DType::kQ5_K, 576), DType::kQ5_1);
  EXPECT_EQ(DTypeForRows(DType::kQ6_K, 576), DType::kQ8_0);
  EXPECT_EQ(DTypeForRows(DType::kQ8_0, 172), DType::kF16);
  EXPECT_EQ(DTypeForRows(DType::kF32, 7), DType::kF32);
}

}  // namespace
}  // namespace tandem::testing
