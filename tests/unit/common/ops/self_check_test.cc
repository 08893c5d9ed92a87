#include "common/ops/self_check.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/common/ops/ops_testing.h"

namespace tandem::ops {
namespace {

TEST(SelfCheckTest, EverySupportedClassGivesItsKnownBytes) {
  for (NumericsClass numerics : Classes()) {
    EXPECT_TRUE(SelfCheck(numerics).ok()) << SelfCheck(numerics);
    auto digests = ComputeDigests(numerics);
    ASSERT_TRUE(digests.ok());
    for (const KernelDigest& d : *digests) {  // for the table in self_check.cc
      RecordProperty(fmt::format("{} {}", Name(numerics), d.kernel),
                     fmt::format("{:016x}", d.digest));
    }
  }
}

TEST(SelfCheckTest, ClassesDifferWhereTheirArithmeticDoes) {
  std::set<std::uint64_t> products;
  for (NumericsClass numerics : Classes()) {
    auto digests = ComputeDigests(numerics);
    ASSERT_TRUE(digests.ok());
    for (const KernelDigest& d : *digests) {
      if (d.kernel == "attention") products.insert(d.digest);
    }
  }
  // avx512 and avx512-vnni share their attention.
  EXPECT_GE(products.size() + 1, Classes().size());
}

TEST(SelfCheckTest, AnIdentityNamesTheClassAndItsBytes) {
  EXPECT_TRUE(IdentityOf(NumericsClass::kAmx).starts_with("amx."));
  EXPECT_EQ(IdentityOf(NumericsClass::kAmx).size(), 12);
  EXPECT_NE(IdentityOf(NumericsClass::kAvx512).substr(7),
            IdentityOf(NumericsClass::kAvx512Vnni).substr(12));
}

}  // namespace
}  // namespace tandem::ops
