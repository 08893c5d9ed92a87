// Norms, gate, rotary embedding, embedding rows, logits: each class against exact arithmetic.
#include <gtest/gtest.h>

#include <limits>
#include <numbers>

#include "common/ops/embedding.h"
#include "common/ops/logits.h"
#include "common/ops/rms_norm.h"
#include "common/ops/rope.h"
#include "common/ops/swiglu.h"
#include "tests/unit/common/ops/ops_testing.h"

namespace tandem::ops {
namespace {

constexpr std::int64_t kSizes[] = {1, 7, 16, 48, 64, 100, 172, 576};

TEST(RmsNormTest, EveryClassIsCloseAndRowsAreIndependent) {
  for (NumericsClass numerics : Classes()) {
    const OpsContext context = MakeContext(numerics, 2, 1024);
    for (std::int64_t k : kSizes) {
      SCOPED_TRACE(fmt::format("{} k={}", Name(numerics), k));
      constexpr std::int64_t kRows = 5;
      const std::vector<float> x = RandomFloats(kRows * k, 3);
      const std::vector<float> weight = RandomFloats(k, 4);
      auto act = Activations::Create(numerics, kRows, k);
      ASSERT_TRUE(act.ok());
      const ActivationView out = act->View(kRows, k);
      for (const Range rows : {Range{0, 2}, Range{2, kRows}}) {
        RmsNorm(context, {.x = x.data(), .weight = weight.data(), .eps = 1e-5f}, out, rows);
      }
      const std::vector<float> together(out.x, out.x + kRows * k);
      for (std::int64_t row = 0; row < kRows; ++row) {
        double sum = 0;
        for (std::int64_t i = 0; i < k; ++i)
          sum += static_cast<double>(x[row * k + i]) * x[row * k + i];
        const double scale = 1 / std::sqrt(sum / static_cast<double>(k) + 1e-5);
        for (std::int64_t i = 0; i < k; ++i) {
          ASSERT_NEAR(together[row * k + i], x[row * k + i] * scale * weight[i], 2e-5);
        }
        const ActivationView one = act->View(1, k);
        RmsNorm(context, {.x = x.data() + row * k, .weight = weight.data(), .eps = 1e-5f}, one,
                {0, 1});
        ASSERT_EQ(std::vector<float>(one.x, one.x + k),
                  std::vector<float>(together.begin() + row * k, together.begin() + (row + 1) * k));
      }
    }
  }
}

TEST(RmsNormTest, HeadNormTakesEachHeadOnItsOwn) {
  for (NumericsClass numerics : Classes()) {
    SCOPED_TRACE(Name(numerics));
    constexpr std::int64_t kRows = 3, kHeads = 4, kDim = 20, kStride = 90;
    const OpsContext context = MakeContext(numerics, 1, 64);
    std::vector<float> x = RandomFloats(kRows * kStride, 8);
    const std::vector<float> before = x;
    const std::vector<float> weight = RandomFloats(kDim, 9);
    HeadNorm(context,
             {.x = x.data(),
              .x_stride = kStride,
              .heads = kHeads,
              .head_dim = kDim,
              .weight = weight.data(),
              .eps = 1e-6f},
             {0, kRows});
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t i = 0; i < kStride; ++i) {
        const std::int64_t at = row * kStride + i;
        if (i >= kHeads * kDim) {
          ASSERT_EQ(x[at], before[at]);
          continue;
        }
        const std::int64_t head = at - i % kDim;
        double sum = 0;
        for (std::int64_t j = 0; j < kDim; ++j)
          sum += static_cast<double>(before[head + j]) * before[head + j];
        ASSERT_NEAR(x[at], before[at] / std::sqrt(sum / kDim + 1e-6) * weight[i % kDim], 1e-5);
      }
    }
  }
}

TEST(SwigluTest, EveryClassIsCloseAtAnySizeAndMagnitude) {
  for (NumericsClass numerics : Classes()) {
    const OpsContext context = MakeContext(numerics, 1, 1024);
    const double tolerance = numerics == NumericsClass::kAmx ? 1.5e-4 : 1e-6;
    for (std::int64_t k : kSizes) {
      SCOPED_TRACE(fmt::format("{} k={}", Name(numerics), k));
      std::vector<float> gate = RandomFloats(k, 3, 20.0);
      gate[0] = -1000.0f;
      if (k > 4) gate[1] = 1000.0f, gate[2] = -0.0f, gate[3] = -88.5f;
      const std::vector<float> up = RandomFloats(k, 4);
      auto act = Activations::Create(numerics, 1, k);
      ASSERT_TRUE(act.ok());
      const ActivationView out = act->View(1, k);
      Swiglu(context, {.gate = gate.data(), .up = up.data()}, out, {0, 1});
      for (std::int64_t i = 0; i < k; ++i) {
        const double exact = gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i];
        ASSERT_NEAR(out.x[i], exact, tolerance * (1 + std::abs(exact))) << gate[i];
      }
    }
  }
}

TEST(SwigluTest, BodyAndTailAgree) {
  for (NumericsClass numerics : Classes()) {
    const OpsContext context = MakeContext(numerics, 1, 64);
    const std::vector<float> gate = RandomFloats(48, 3, 5.0);
    auto act = Activations::Create(numerics, 1, 48);
    ASSERT_TRUE(act.ok());
    const ActivationView out = act->View(1, 48);
    Swiglu(context, {.gate = gate.data(), .up = gate.data()}, out, {0, 1});
    const std::vector<float> whole(out.x, out.x + 48);
    for (std::int64_t i = 0; i < 48; ++i) {
      const ActivationView one = act->View(1, 1);
      Swiglu(context, {.gate = &gate[i], .up = &gate[i]}, one, {0, 1});
      ASSERT_EQ(one.x[0], whole[i]) << Name(numerics) << " " << i;
    }
  }
}

TEST(RopeTest, RotatesPairsByThePositionsAngleInEveryClassAlike) {
  constexpr std::int64_t kDim = 46, kPairs = 21;  // partial: the last four elements pass
  std::vector<double> inv_freq;
  for (int i = 0; i < kPairs; ++i) inv_freq.push_back(std::pow(10000.0, -i / 21.0));
  auto table = RopeTable::Create(inv_freq, 1.25, 3000);
  ASSERT_TRUE(table.ok());
  const std::vector<std::int32_t> positions = {0, 1, 2999};
  const std::vector<float> before = RandomFloats(3 * 2 * kDim, 6);
  for (RopePairs pairs : {RopePairs::kInterleaved, RopePairs::kHalves}) {
    std::vector<float> first;
    for (NumericsClass numerics : Classes()) {
      SCOPED_TRACE(Name(numerics));
      const OpsContext context = MakeContext(numerics, 1, 64);
      std::vector<float> x = before;
      for (const Range rows : {Range{0, 1}, Range{1, 3}}) {
        Rope(context, *table,
             {.x = x.data(),
              .x_stride = 2 * kDim,
              .heads = 2,
              .head_dim = kDim,
              .positions = positions.data(),
              .pairs = pairs},
             rows);
      }
      for (std::int64_t head = 0; head < 6; ++head) {
        for (std::int64_t i = 0; i < kPairs; ++i) {
          const std::int64_t a = head * kDim + (pairs == RopePairs::kHalves ? i : 2 * i);
          const std::int64_t b = pairs == RopePairs::kHalves ? a + kPairs : a + 1;
          const double angle = positions[head / 2] * inv_freq[i];
          const double cos = 1.25 * std::cos(angle), sin = 1.25 * std::sin(angle);
          ASSERT_NEAR(x[a], before[a] * cos - before[b] * sin, 1e-5);
          ASSERT_NEAR(x[b], before[a] * sin + before[b] * cos, 1e-5);
        }
        for (std::int64_t i = 2 * kPairs; i < kDim; ++i)
          ASSERT_EQ(x[head * kDim + i], before[head * kDim + i]);
      }
      if (first.empty()) first = x;
      ASSERT_EQ(x, first);
    }
  }
}

TEST(RopeTest, TheTableIsExactInF32UpToLongContexts) {
  const std::vector<double> inv_freq = {1.0, 0.1, 1e-5};
  auto table = RopeTable::Create(inv_freq, 1.0, 131072);
  ASSERT_TRUE(table.ok());
  for (std::int64_t position = 0; position < 131072; ++position) {
    for (int i = 0; i < 3; ++i) {
      const double angle = static_cast<double>(position) * inv_freq[i];
      ASSERT_NEAR(table->cos(position)[i], std::cos(angle), 3.1e-8) << position;
      ASSERT_NEAR(table->sin(position)[i], std::sin(angle), 3.1e-8) << position;
    }
  }
}

TEST(RopeTest, RefusesTablesOfNoOrAbsurdSize) {
  const std::vector<double> one = {1.0};
  EXPECT_FALSE(RopeTable::Create({}, 1, 10).ok());
  EXPECT_FALSE(RopeTable::Create(one, 1, 0).ok());
  EXPECT_FALSE(RopeTable::Create(one, 1, std::int64_t{1} << 62).ok());
}

TEST(EmbeddingTest, TakesTheRowsOfTheFile) {
  for (WeightType type : kAllTypes) {
    const OwnedWeights weights = RandomWeights(type, 9, 256, 5);
    const std::vector<std::int32_t> ids = {8, 0, 3, 8};
    std::vector<float> out(4 * 256);
    for (const Range rows : {Range{0, 1}, Range{1, 1}, Range{1, 4}}) {
      EmbedRows(weights.source, ids, out.data(), rows);
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::vector<float> row(256);
      DequantizeRow(type, weights.source.row(ids[i]), 256, row.data());
      EXPECT_EQ(std::vector<float>(out.begin() + i * 256, out.begin() + (i + 1) * 256), row);
    }
  }
}

TEST(LogitsTest, ArgmaxTakesTheLowestOfTiesAndFindsEveryNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (NumericsClass numerics : Classes()) {
    SCOPED_TRACE(Name(numerics));
    const OpsContext context = MakeContext(numerics, 1, 64);
    EXPECT_EQ(Argmax(context, std::vector<float>{1, 3, 2, 3}), 1);
    EXPECT_EQ(Argmax(context, std::vector<float>{-0.0f, 0.0f}), 0);
    EXPECT_EQ(Argmax(context, std::vector<float>{-infinity, -infinity}), 0);
    EXPECT_EQ(Argmax(context, std::vector<float>{-1, infinity, infinity}), 1);
    EXPECT_EQ(Argmax(context, std::vector<float>{nan, nan}), std::nullopt);
    for (std::size_t size : {1, 15, 16, 63, 64, 65, 1023, 1024, 1025, 2200}) {
      std::vector<float> logits = RandomFloats(static_cast<std::int64_t>(size), size);
      for (std::size_t at = 0; at < size; at += 1 + size / 70) {
        const float before = logits[at];
        logits[at] = 100;
        if (at + 1 < size) logits[size - 1] = 100;
        EXPECT_EQ(Argmax(context, logits), static_cast<std::int64_t>(at)) << size;
        logits[size - 1] = -1;
        logits[at] = nan;
        EXPECT_EQ(Argmax(context, logits), std::nullopt) << size;
        logits[at] = before;
      }
    }
  }
}

TEST(LogitsTest, ExpSumIsCloseInEveryClass) {
  for (NumericsClass numerics : Classes()) {
    const OpsContext context = MakeContext(numerics, 1, 64);
    for (std::int64_t n : {1, 15, 1023, 1024, 5001}) {
      const std::vector<float> x = RandomFloats(n, 3, 10.0);
      const float max = *std::max_element(x.begin(), x.end());
      std::vector<float> out(static_cast<std::size_t>(n));
      const double sum = ExpSum(context, x, max, out);
      double exact = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const double e = std::exp(static_cast<double>(x[i] - max));
        ASSERT_NEAR(out[i], e, 1e-6 * e + 1e-30) << Name(numerics);
        exact += e;
      }
      EXPECT_NEAR(sum, exact, 2e-6 * exact);
    }
  }
}

TEST(LogitsTest, ExpIsZeroFarBelowAndOneAtTheTop) {
  for (NumericsClass numerics : Classes()) {
    const OpsContext context = MakeContext(numerics, 1, 64);
    const std::vector<float> x = {0.0f, -std::numeric_limits<float>::infinity(), -200.0f, -87.5f};
    std::vector<float> out(4);
    EXPECT_EQ(ExpSum(context, x, 0.0f, out), 1.0);
    EXPECT_EQ(out, (std::vector<float>{1, 0, 0, 0}));
  }
}

}  // namespace
}  // namespace tandem::ops
