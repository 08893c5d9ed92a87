#include "deploy/bench/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tandem::deploy {
namespace {

std::vector<double> GapsS(Arrivals arrivals, int count) {
  std::vector<double> gaps;
  Duration before{};
  for (int i = 0; i < count; ++i) {
    const Duration at = arrivals.Next();
    gaps.push_back(ToSeconds(at - before));
    before = at;
  }
  return gaps;
}

TEST(Arrivals, PoissonHasTheRateAndTheSpreadOfOne) {
  const std::vector<double> gaps = GapsS({Arrivals::Kind::kPoisson, 20, 7}, 100'000);
  double sum = 0, squares = 0;
  int over_mean = 0;
  for (double gap : gaps) {
    ASSERT_GE(gap, 0);
    sum += gap;
    squares += gap * gap;
    over_mean += gap > 0.05 ? 1 : 0;
  }
  const double n = static_cast<double>(gaps.size());
  const double mean = sum / n;
  EXPECT_NEAR(mean, 0.05, 0.0005);
  EXPECT_NEAR(std::sqrt(squares / n - mean * mean), 0.05,
              0.0015);  // an exponential's equals its mean
  EXPECT_NEAR(over_mean / n, std::exp(-1.0), 0.01);
}

TEST(Arrivals, AreAFunctionOfTheSeed) {
  const auto with = [](std::uint64_t seed) {
    return GapsS({Arrivals::Kind::kPoisson, 3, seed}, 100);
  };
  EXPECT_EQ(with(1), with(1));
  EXPECT_NE(with(1), with(2));
}

TEST(Arrivals, ConstantNeitherDriftsNorVaries) {
  Arrivals arrivals(Arrivals::Kind::kConstant, 3, 0);
  EXPECT_EQ(arrivals.Next(), Duration::zero());
  for (int i = 1; i < 300'000; ++i) arrivals.Next();
  EXPECT_NEAR(ToSeconds(arrivals.Next()), 100'000, 1e-6);
}

}  // namespace
}  // namespace tandem::deploy
