#include "common/ops/matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "common/ops/swiglu.h"
#include "tests/unit/common/ops/ops_testing.h"

namespace tandem::ops {
namespace {

using ::testing::HasSubstr;

std::vector<float> Multiply(const OpsContext& context, const PackedMatrix& weights,
                            const std::vector<float>& x, std::int64_t rows, int num_threads,
                            MatmulOutput output = {}, std::vector<float> y = {}) {
  const std::int64_t k = weights.k();
  auto activations = Activations::Create(context.numerics(), rows, k);
  EXPECT_TRUE(activations.ok());
  const ActivationView view = activations->View(rows, k);
  std::memcpy(view.x, x.data(), static_cast<std::size_t>(rows * k) * sizeof(float));
  if (y.empty()) y.assign(static_cast<std::size_t>(rows * weights.n()), -7.0f);
  output.y = y.data();
  ThreadPool& pool = PoolOf(num_threads);
  Split split(num_threads);
  pool.Run([&](int index, int) {
    const Share share{&split, index};
    share.ForEach(rows, [&](Range some) { Prepare(context, view, some); });
    pool.Barrier();
    Matmul(context, weights, view, output, share);
  });
  return y;
}

// In double, from the dequantised weights.
std::vector<double> Exact(const WeightSource& source, const std::vector<float>& x,
                          std::int64_t rows) {
  std::vector<float> w(static_cast<std::size_t>(source.k));
  std::vector<double> y(static_cast<std::size_t>(rows * source.n));
  for (std::int64_t column = 0; column < source.n; ++column) {
    DequantizeRow(source.type, source.row(column), source.k, w.data());
    for (std::int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (std::int64_t i = 0; i < source.k; ++i) {
        sum += static_cast<double>(x[row * source.k + i]) * w[i];
      }
      y[row * source.n + column] = sum;
    }
  }
  return y;
}

double RmsOf(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

struct Shape {
  std::int64_t n;
  std::int64_t k;
};

// Inner sizes that are not multiples of 64, columns that do not fill a panel.
std::vector<Shape> ShapesOf(WeightType type) {
  if (Info(type).block_elems == 256) return {{33, 256}, {80, 768}};
  if (Info(type).block_elems == 32) return {{1, 32}, {33, 96}, {100, 160}, {64, 576}};
  return {{1, 1}, {17, 7}, {33, 100}, {100, 161}, {64, 576}};
}

// int8 activations round to 1/254 of the largest of 32; bf16 to 1/512 of itself, as its weights
// do; f32 chains to about 1e-6.
double BoundOf(WeightType type, NumericsClass numerics) {
  const bool is_float = Info(type).group == 0;
  switch (ImageOf(numerics)) {
    case ActivationImage::kNone:
      break;
    case ActivationImage::kInt8:
      return is_float ? 2e-5 : 0.03;
    case ActivationImage::kBf16:
      return is_float && type != WeightType::kBF16 ? 2e-5 : 0.012;
  }
  return 2e-5;
}

TEST(MatmulTest, EveryTypeAndClassIsCloseToTheExactProduct) {
  for (NumericsClass numerics : Classes()) {
    const OpsContext context = MakeContext(numerics, 2, 1024);
    for (WeightType type : kAllTypes) {
      const double bound = BoundOf(type, numerics);
      for (Shape shape : ShapesOf(type)) {
        SCOPED_TRACE(
            fmt::format("{} {} [{}, {}]", Name(numerics), TypeName(type), shape.n, shape.k));
        const OwnedWeights weights = RandomWeights(type, shape.n, shape.k, 11);
        auto packed = PackedMatrix::Pack(weights.source, numerics);
        ASSERT_TRUE(packed.ok()) << packed.status();
        for (std::int64_t rows : {1, 2, 3, 5, 13, 32}) {
          const std::vector<float> x = RandomFloats(rows * shape.k, 5);
          const std::vector<double> exact = Exact(weights.source, x, rows);
          const std::vector<float> y = Multiply(context, *packed, x, rows, 2);
          const double scale = RmsOf(exact) + 1e-3;
          for (std::size_t i = 0; i < y.size(); ++i) {
            ASSERT_NEAR(y[i], exact[i], bound * scale * 4) << "element " << i << " rows " << rows;
          }
        }
      }
    }
  }
}

TEST(MatmulTest, MoreRowsAndBlocksThanACallTakesAreDividedWithoutATrace) {
  // Rows of so many bytes are divided further, to stay in the nearer caches.
  constexpr std::int64_t kRows = 1100, kColumns = 40, kInner = 2080;
  const std::vector<float> x = RandomFloats(kRows * kInner, 9);
  for (NumericsClass numerics : FastClasses()) {
    const OpsContext context = MakeContext(numerics, 3, kInner);
    for (WeightType type : {WeightType::kQ4_0, WeightType::kQ4_1, WeightType::kQ8_0}) {
      const OwnedWeights weights = RandomWeights(type, kColumns, kInner, 3);
      auto packed = PackedMatrix::Pack(weights.source, numerics);
      ASSERT_TRUE(packed.ok());
      const std::vector<float> whole = Multiply(context, *packed, x, kRows, 3);
      // Each panel of each part is added once.
      const std::vector<float> twice =
          Multiply(context, *packed, x, kRows, 2, {.accumulate = true}, whole);
      for (std::size_t i = 0; i < twice.size(); ++i) ASSERT_EQ(twice[i], 2 * whole[i]) << i;
      for (std::int64_t rows : {1, 32, 40, 513}) {
        for (std::int64_t row = 0; row + rows <= kRows; row += 521) {
          const std::vector<float> part(x.begin() + row * kInner,
                                        x.begin() + (row + rows) * kInner);
          const std::vector<float> y = Multiply(context, *packed, part, rows, 2);
          ASSERT_EQ(std::memcmp(y.data(), whole.data() + row * kColumns, y.size() * 4), 0)
              << Name(numerics) << " " << TypeName(type) << " rows " << row << "+" << rows;
        }
      }
    }
  }
}

// x through gate and up, their product and `next`: at once where the class can, or step by step.
std::vector<float> FeedForward(const OpsContext& context, const GatedWeights& weights,
                               const PackedMatrix& next, const std::vector<float>& x,
                               std::int64_t rows, int num_threads, bool at_once) {
  const std::int64_t inner = weights.gate.n();
  auto in = Activations::Create(context.numerics(), rows, weights.gate.k());
  auto between = Activations::Create(context.numerics(), rows, inner);
  const ActivationView in_view = in->View(rows, weights.gate.k());
  const ActivationView out = between->View(rows, inner);
  std::memcpy(in_view.x, x.data(), x.size() * sizeof(float));
  std::memset(out.blocks, 0xff,
              static_cast<std::size_t>(out.groups * out.block_bytes *
                                       (RoundUp(rows, 32) / kActivationRows)));  // NaN
  std::vector<float> gate(static_cast<std::size_t>(rows * inner));
  std::vector<float> up(gate.size());
  std::vector<float> y(static_cast<std::size_t>(rows * next.n()));
  ThreadPool& pool = PoolOf(num_threads);
  Split split(num_threads);
  pool.Run([&](int index, int) {
    const Share share{&split, index};
    share.ForEach(rows, [&](Range some) { Prepare(context, in_view, some); });
    pool.Barrier();
    if (at_once) {
      GatedMatmul(context, weights, in_view, out, share);
    } else {
      Matmul(context, weights.gate, in_view, {.y = gate.data(), .bias = weights.gate_bias}, share);
      Matmul(context, weights.up, in_view, {.y = up.data(), .bias = weights.up_bias}, share);
      pool.Barrier();
      share.ForEach(rows, [&](Range some) {
        Swiglu(context, {.gate = gate.data(), .up = up.data()}, out, some);
      });
    }
    pool.Barrier();
    Matmul(context, next, out, {.y = y.data()}, share);
  });
  return y;
}

TEST(MatmulTest, GateAndUpAtOnceAreWhatTheyAreStepByStep) {
  int compared = 0;
  for (NumericsClass numerics : Classes()) {
    for (WeightType type : kAllTypes) {
      const std::int64_t k = Info(type).block_elems == 256 ? 256 : 96;
      for (std::int64_t inner : {1, 16, 17, 40, 100}) {
        SCOPED_TRACE(fmt::format("{} {} inner={}", Name(numerics), TypeName(type), inner));
        const OwnedWeights gate = RandomWeights(type, inner, k, 3);
        const OwnedWeights up = RandomWeights(type, inner, k, 4);
        const OwnedWeights next = RandomWeights(WeightType::kBF16, 24, inner, 5);
        auto packed_gate = PackedMatrix::Pack(gate.source, numerics);
        auto packed_up = PackedMatrix::Pack(up.source, numerics);
        auto packed_next = PackedMatrix::Pack(next.source, numerics);
        const OpsContext context = MakeContext(numerics, 2, 256);
        if (!HasGatedMatmul(context, *packed_gate, *packed_up, *packed_next)) continue;
        const std::vector<float> gate_bias = RandomFloats(inner, 6);
        const std::vector<float> up_bias = RandomFloats(inner, 7);
        for (std::int64_t rows : {1, 2, 15, 16, 17, 32, 33, 67}) {
          const std::vector<float> x = RandomFloats(rows * k, 8);
          for (const bool biased : {false, true}) {
            const GatedWeights weights{*packed_gate, *packed_up,
                                       biased ? gate_bias.data() : nullptr,
                                       biased ? up_bias.data() : nullptr};
            ASSERT_EQ(FeedForward(context, weights, *packed_next, x, rows, 2, true),
                      FeedForward(context, weights, *packed_next, x, rows, 1, false))
                << rows << " rows, biased " << biased;
            ++compared;
          }
        }
      }
    }
  }
  const bool has_tiles = Classes().back() == NumericsClass::kAmx;
  EXPECT_EQ(compared > 0, has_tiles);
}

TEST(MatmulTest, ARowIsTheSameAloneInBatchesInChunksAndOnAnyThreadCount) {
  constexpr std::int64_t kRows = 67;
  for (NumericsClass numerics : Classes()) {
    for (WeightType type : kAllTypes) {
      const Shape shape = ShapesOf(type).back();
      const Shape shapes[] = {shape, {37, shape.k}};
      for (Shape s : shapes) {
        SCOPED_TRACE(fmt::format("{} {} n={}", Name(numerics), TypeName(type), s.n));
        const OwnedWeights weights = RandomWeights(type, s.n, s.k, 3);
        auto packed = PackedMatrix::Pack(weights.source, numerics);
        ASSERT_TRUE(packed.ok());
        const OpsContext context = MakeContext(numerics, 4, s.k);
        const std::vector<float> x = RandomFloats(kRows * s.k, 9, 3.0);
        const std::vector<float> whole = Multiply(context, *packed, x, kRows, 1);
        for (int threads : {2, 3, 4}) {
          ASSERT_EQ(Multiply(context, *packed, x, kRows, threads), whole) << threads;
        }
        for (std::int64_t batch = 1; batch <= 32; ++batch) {
          for (std::int64_t row = 0; row < kRows; row += batch) {
            const std::int64_t rows = std::min(batch, kRows - row);
            const std::vector<float> part(x.begin() + row * s.k, x.begin() + (row + rows) * s.k);
            const std::vector<float> y =
                Multiply(context, *packed, part, rows, 1 + static_cast<int>(batch % 2));
            ASSERT_EQ(std::memcmp(y.data(), whole.data() + row * s.n, y.size() * 4), 0)
                << "rows " << row << "+" << rows;
          }
          if (batch > 9) batch += 4;
        }
      }
    }
  }
}

TEST(MatmulTest, BiasAndAccumulateAddAfterTheProduct) {
  constexpr Shape kShape{45, 96};
  constexpr std::int64_t kRows = 7;
  for (NumericsClass numerics : Classes()) {
    SCOPED_TRACE(Name(numerics));
    const OwnedWeights weights = RandomWeights(WeightType::kQ4_1, kShape.n, kShape.k, 4);
    auto packed = PackedMatrix::Pack(weights.source, numerics);
    ASSERT_TRUE(packed.ok());
    const OpsContext context = MakeContext(numerics, 2, kShape.k);
    const std::vector<float> x = RandomFloats(kRows * kShape.k, 1);
    const std::vector<float> bias = RandomFloats(kShape.n, 2);
    const std::vector<float> old = RandomFloats(kRows * kShape.n, 3);
    const std::vector<float> plain = Multiply(context, *packed, x, kRows, 2);
    const std::vector<float> both =
        Multiply(context, *packed, x, kRows, 2, {.bias = bias.data(), .accumulate = true}, old);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(both[i], old[i] + (plain[i] + bias[i % kShape.n])) << i;
    }
  }
}

TEST(MatmulTest, ExtremeActivationsStayInTheirOwnRow) {
  constexpr Shape kShape{40, 64};
  const float kTiny = std::numeric_limits<float>::denorm_min();
  const float kHuge = 1e30f;
  const float kNan = std::numeric_limits<float>::quiet_NaN();
  const float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> specials = {0.0f,    -0.0f, kTiny,  -kTiny,    1e-38f, 127.0f,
                                       -128.0f, kHuge, -kHuge, kInfinity, kNan};
  const std::int64_t rows = static_cast<std::int64_t>(specials.size());
  for (NumericsClass numerics : Classes()) {
    for (WeightType type : {WeightType::kF32, WeightType::kQ4_0, WeightType::kQ8_0}) {
      SCOPED_TRACE(fmt::format("{} {}", Name(numerics), TypeName(type)));
      const OwnedWeights weights = RandomWeights(type, kShape.n, kShape.k, 4);
      auto packed = PackedMatrix::Pack(weights.source, numerics);
      ASSERT_TRUE(packed.ok());
      const OpsContext context = MakeContext(numerics, 2, kShape.k);
      std::vector<float> x = RandomFloats(rows * kShape.k, 1);
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < 5; ++i) x[row * kShape.k + i * 7] = specials[row];
      }
      const std::vector<float> together = Multiply(context, *packed, x, rows, 2);
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::vector<float> alone(x.begin() + row * kShape.k,
                                       x.begin() + (row + 1) * kShape.k);
        const std::vector<float> y = Multiply(context, *packed, alone, 1, 1);
        EXPECT_EQ(std::memcmp(y.data(), together.data() + row * kShape.n, y.size() * 4), 0) << row;
      }
    }
  }
}

TEST(MatmulTest, SaturatedBytesDoNotOverflow) {
  // The largest magnitudes of both operands: weights all -128 or 127, activations all of one sign.
  constexpr Shape kShape{32, 256};
  OwnedWeights weights = RandomWeights(WeightType::kQ8_0, kShape.n, kShape.k, 1);
  for (std::size_t at = 0; at < weights.bytes.size(); at += 34) {
    PutHalf(0x3c00, weights.bytes.data() + at);  // scale 1
    const int value = at / 34 % 2 == 0 ? -128 : 127;
    for (int i = 0; i < 32; ++i) weights.bytes[at + 2 + i] = static_cast<std::byte>(value);
  }
  weights.source.bytes = weights.bytes;
  for (NumericsClass numerics : Classes()) {
    SCOPED_TRACE(Name(numerics));
    auto packed = PackedMatrix::Pack(weights.source, numerics);
    ASSERT_TRUE(packed.ok());
    const OpsContext context = MakeContext(numerics, 1, kShape.k);
    for (float sign : {1.0f, -1.0f}) {
      const std::vector<float> x(static_cast<std::size_t>(kShape.k), sign * 127.0f);
      const std::vector<float> y = Multiply(context, *packed, x, 1, 1);
      for (float value : y) EXPECT_NEAR(value, sign * 127.0f * 32 * 4 * (127 - 128), 0.05f);
    }
  }
}

TEST(PackedMatrixTest, RefusesSourcesThatDoNotAddUp) {
  const OwnedWeights good = RandomWeights(WeightType::kQ4_K, 4, 256, 1);
  WeightSource bad = good.source;
  bad.bytes = bad.bytes.first(bad.bytes.size() - 1);
  EXPECT_THAT(PackedMatrix::Pack(bad, NumericsClass::kScalarF32).status().ToString(),
              HasSubstr("takes 576 bytes, 575 given"));
  bad = good.source;
  bad.k = 128;
  EXPECT_THAT(PackedMatrix::Pack(bad, NumericsClass::kScalarF32).status().ToString(),
              HasSubstr("whole blocks of 256"));
  bad.n = 0;
  EXPECT_EQ(PackedMatrix::Pack(bad, NumericsClass::kScalarF32).status().code(),
            absl::StatusCode::kInvalidArgument);
  bad.n = std::int64_t{1} << 60;
  EXPECT_EQ(PackedMatrix::Pack(bad, NumericsClass::kScalarF32).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem::ops
