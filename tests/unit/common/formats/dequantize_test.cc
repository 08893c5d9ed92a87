#include "common/formats/dequantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "tests/testing/paths.h"
#include "tests/testing/quantize.h"

namespace tandem::formats {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

// dequantize.txt holds random blocks and their values, computed by dequantize.py beside it.
TEST(Dequantize, EqualsTheReferenceBitForBit) {
  std::ifstream file(tandem::testing::SourcePath("tests/testing/reference/dequantize.txt"));
  std::map<std::string, int> blocks;
  std::string name;
  std::string block_hex;
  std::string values_hex;
  while (file >> name >> block_hex >> values_hex) {
    auto infos = AllDTypes();
    auto info = std::find_if(infos.begin(), infos.end(),
                             [&](const DTypeInfo& i) { return i.name == name; });
    ASSERT_NE(info, infos.end()) << name;
    std::vector<std::byte> expected = FromHex(values_hex);
    std::vector<float> out(static_cast<std::size_t>(info->block_elems));
    ASSERT_TRUE(Dequantize(info->dtype, FromHex(block_hex), out).ok());
    ASSERT_EQ(expected.size(), out.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(out.data(), expected.data(), expected.size()), 0)
        << name << " block " << blocks[name];
    ++blocks[name];
  }
  EXPECT_EQ(blocks.size(), AllDTypes().size());
}

TEST(Dequantize, ReadsRunsOfBlocksAtAnyAlignment) {
  for (const DTypeInfo& info : AllDTypes()) {
    SplitMix64 random(3);
    std::vector<float> values(1024);
    for (float& x : values) x = static_cast<float>(2 * random.Unit() - 1);
    std::vector<std::byte> bytes = tandem::testing::Quantize(info.dtype, values);
    std::vector<float> aligned(values.size());
    ASSERT_TRUE(Dequantize(info.dtype, bytes, aligned).ok());
    bytes.insert(bytes.begin(), std::byte{0});
    std::vector<float> odd(values.size());
    ASSERT_TRUE(Dequantize(info.dtype, std::span(bytes).subspan(1), odd).ok());
    EXPECT_EQ(odd, aligned) << info.name;
  }
}

TEST(Dequantize, ZeroElementsAreFine) { EXPECT_TRUE(Dequantize(DType::kQ6_K, {}, {}).ok()); }

TEST(Dequantize, RefusesSizesThatDisagree) {
  std::vector<std::byte> bytes(18);
  std::vector<float> out(32);
  EXPECT_TRUE(Dequantize(DType::kQ4_0, bytes, out).ok());
  Status wrong = Dequantize(DType::kQ4_1, bytes, out);
  EXPECT_TRUE(absl::IsInvalidArgument(wrong));
  EXPECT_THAT(FromAbsl(wrong.message()), HasSubstr("Q4_1: 18 bytes do not hold 32 elements"));
  EXPECT_FALSE(Dequantize(DType::kQ4_0, bytes, std::span(out).first(31)).ok());
}

}  // namespace
}  // namespace tandem::formats
