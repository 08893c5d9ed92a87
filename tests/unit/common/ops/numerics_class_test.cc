#include "common/ops/numerics_class.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr CpuFeatures kBaseline{};
constexpr CpuFeatures kHaswell{.vendor = CpuVendor::kIntel, .avx2 = true};
constexpr CpuFeatures kSkylakeX{.vendor = CpuVendor::kIntel, .avx2 = true, .avx512 = true};
constexpr CpuFeatures kZen4{.vendor = CpuVendor::kAmd,
                            .avx2 = true,
                            .avx512 = true,
                            .avx512_vnni = true,
                            .avx512_bf16 = true};
constexpr CpuFeatures kSapphireRapids{.vendor = CpuVendor::kIntel,
                                      .avx2 = true,
                                      .avx512 = true,
                                      .avx512_vnni = true,
                                      .avx512_bf16 = true,
                                      .amx = true};

TEST(NumericsClassTest, TheTableTakesTheFastestWhoseActivationsAreAsGoodAsFloats) {
  EXPECT_EQ(*ChooseClass("", kBaseline), NumericsClass::kScalarF32);
  EXPECT_EQ(*ChooseClass("", kHaswell), NumericsClass::kAvx2);
  EXPECT_EQ(*ChooseClass("", kSkylakeX), NumericsClass::kAvx512);
  EXPECT_EQ(*ChooseClass("", kZen4), NumericsClass::kAvx512);
  EXPECT_EQ(*ChooseClass("", kSapphireRapids), NumericsClass::kAmx);
}

TEST(NumericsClassTest, AForcedClassIsTakenOrRefusedWithThoseThatWork) {
  for (const CpuFeatures& features : {kZen4, kSapphireRapids}) {
    for (NumericsClass numerics : SupportedClasses(features)) {
      EXPECT_EQ(*ChooseClass(Name(numerics), features), numerics);
    }
  }
  const Status unsupported = ChooseClass("avx512-vnni", kHaswell).status();
  EXPECT_EQ(unsupported.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(unsupported.ToString(), HasSubstr("can run scalar-f32, avx2"));
  const Status unknown = ChooseClass("avx1024", kHaswell).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.ToString(), HasSubstr("\"avx1024\""));
}

TEST(NumericsClassTest, ScalarIsAlwaysSupportedAndKeepsF32) {
  EXPECT_THAT(SupportedClasses(kBaseline), ElementsAre(NumericsClass::kScalarF32));
  EXPECT_EQ(KvTypeOf(NumericsClass::kScalarF32), KvType::kF32);
  EXPECT_EQ(KvTypeOf(NumericsClass::kAvx2), KvType::kBf16);
}

}  // namespace
}  // namespace tandem::ops
