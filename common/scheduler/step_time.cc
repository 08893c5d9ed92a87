#include "common/scheduler/step_time.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tandem::scheduler {
namespace {

constexpr double kFade = 0.99;                           // weight of an observation one step older
constexpr std::array<double, 3> kScale = {1, 1e2, 1e5};  // typical features, so that sums compare
constexpr double kRidge = 1e-6;

// Solves the equations restricted to the features in `use`; false where they are singular.
bool SolveSubset(const std::array<std::array<double, 3>, 3>& xx, const std::array<double, 3>& xy,
                 std::array<bool, 3> use, std::array<double, 3>& out) {
  std::array<std::array<double, 4>, 3> m{};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) m[i][j] = use[i] && use[j] ? xx[i][j] : 0;
    m[i][i] = use[i] ? m[i][i] + kRidge : 1;
    m[i][3] = use[i] ? xy[i] : 0;
  }
  for (int column = 0; column < 3; ++column) {  // Gauss-Jordan with partial pivoting
    int pivot = column;
    for (int row = column + 1; row < 3; ++row) {
      if (std::fabs(m[row][column]) > std::fabs(m[pivot][column])) pivot = row;
    }
    if (std::fabs(m[pivot][column]) < 1e-12) return false;
    std::swap(m[pivot], m[column]);
    for (int row = 0; row < 3; ++row) {
      if (row == column) continue;
      const double factor = m[row][column] / m[column][column];
      for (int k = column; k < 4; ++k) m[row][k] -= factor * m[column][k];
    }
  }
  for (int i = 0; i < 3; ++i) out[i] = m[i][3] / m[i][i];
  return true;
}

}  // namespace

Duration StuckAfter(const StepTime& fit, double tokens, double pairs) {
  constexpr Duration kLeast = std::chrono::seconds(10);
  constexpr double kTimesPredicted = 20;
  constexpr double kUnfittedPerToken = 0.025;
  constexpr double kMostSeconds = 24 * 3600;
  const bool fitted = fit.fixed_s > 0 || fit.per_token_s > 0 || fit.per_pair_s > 0;
  double seconds =
      kTimesPredicted * (fitted ? fit.Seconds(tokens, pairs) : kUnfittedPerToken * tokens);
  if (!(seconds >= 0)) seconds = 0;  // nonsense from the wire
  seconds = std::min(seconds, kMostSeconds);
  return std::max(kLeast,
                  std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

void StepTimeFit::Observe(double tokens, double pairs, Duration took) {
  const std::array<double, 3> x = {1 / kScale[0], tokens / kScale[1], pairs / kScale[2]};
  const double y = ToSeconds(took);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) xx_[i][j] = kFade * xx_[i][j] + x[i] * x[j];
    xy_[i] = kFade * xy_[i] + x[i] * y;
  }
  ++observations_;
  Solve();
}

// Least squares with no negative coefficient, by dropping the most negative one until none is.
void StepTimeFit::Solve() {
  std::array<bool, 3> use = {true, true, true};
  std::array<double, 3> c{};
  for (int round = 0; round < 3; ++round) {
    if (!SolveSubset(xx_, xy_, use, c)) return;
    int worst = -1;
    for (int i = 0; i < 3; ++i) {
      if (use[i] && c[i] < 0 && (worst < 0 || c[i] < c[worst])) worst = i;
    }
    if (worst < 0) break;
    use[worst] = false;
    c[worst] = 0;
  }
  for (double& value : c) value = value < 0 ? 0 : value;
  time_ = {c[0] / kScale[0], c[1] / kScale[1], c[2] / kScale[2]};
}

}  // namespace tandem::scheduler
