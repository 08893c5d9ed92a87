#include "common/model/weight_plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "common/base/cpu_features.h"
#include "common/ops/packed_matrix.h"
#include "tests/unit/common/model/weights_testing.h"

namespace tandem::model {
namespace {

class WeightPlanTest : public ::testing::Test {
 protected:
  WeightPlanTest() {
    SomeWindows(1).WriteGguf(folder_.File("model.gguf"));
    files_ = *OpenModelFiles(folder_.File("model.gguf"));
    reader_.emplace(*files_.tensors, files_.naming, files_.config);
  }
  WeightPlan Plan(ops::NumericsClass numerics) {
    return *WeightPlan::Make(*reader_, files_.config, numerics);
  }

  testing::TempDir folder_;
  ModelFiles files_;
  std::optional<WeightReader> reader_;
};

TEST_F(WeightPlanTest, WindowsInAnyOrderAreEveryMatrixPackedAlone) {
  for (ops::NumericsClass numerics : ops::SupportedClasses(DetectCpuFeatures())) {
    SCOPED_TRACE(ops::Name(numerics));
    const WeightPlan plan = Plan(numerics);
    std::vector<std::byte> bytes(static_cast<std::size_t>(plan.bytes()), std::byte{0x5a});
    std::vector<std::byte> spare;
    for (std::int64_t i = plan.num_windows() - 1; i >= 0; --i) {
      plan.Fill(i, bytes.data() + i * kWindow, spare);
    }
    std::int64_t at = 0;
    for (const PlannedMatrix& matrix : plan.matrices()) {
      for (; at < matrix.offset; ++at) ASSERT_EQ(bytes[at], std::byte{0});
      const auto alone = ops::PackedMatrix::Pack(matrix.source, numerics);
      ASSERT_TRUE(alone.ok()) << alone.status();
      ASSERT_EQ(std::memcmp(bytes.data() + at, alone->view().data, alone->bytes()), 0);
      at += alone->bytes();
    }
    for (; at < plan.bytes(); ++at) ASSERT_EQ(bytes[at], std::byte{0});
  }
  EXPECT_GT(Plan(ops::NumericsClass::kScalarF32).num_windows(), 3);
}

TEST_F(WeightPlanTest, ClassesThatPackAlikeShareALayoutAndNoOthers) {
  const auto bytes_of = [](const WeightPlan& plan) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(plan.bytes()));
    std::vector<std::byte> spare;
    for (std::int64_t i = 0; i < plan.num_windows(); ++i) {
      plan.Fill(i, bytes.data() + i * kWindow, spare);
    }
    return bytes;
  };
  for (ops::NumericsClass a : ops::SupportedClasses(DetectCpuFeatures())) {
    for (ops::NumericsClass b : ops::SupportedClasses(DetectCpuFeatures())) {
      const WeightPlan plan_a = Plan(a);
      const WeightPlan plan_b = Plan(b);
      EXPECT_EQ(plan_a.layout() == plan_b.layout(), bytes_of(plan_a) == bytes_of(plan_b))
          << ops::Name(a) << " " << ops::Name(b);
    }
  }
}

}  // namespace
}  // namespace tandem::model
