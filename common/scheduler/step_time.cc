#include "common/scheduler/step_time.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tandem::scheduler {
namespace {

constexpr double kFade = 0.99;                           // weight of an observation one step older
constexpr std::array<double, 3> kScale = {1, 1e2, 1e5};  // typical features, so that sums compare
constexpr double kRidge = 1e-6;
constexpr std::int64_t kPlain = 8;  // observations before any counts less

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
  const double weight = Weigh(time_.Seconds(tokens, pairs), y);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) xx_[i][j] = kFade * xx_[i][j] + weight * x[i] * x[j];
    xy_[i] = kFade * xy_[i] + weight * x[i] * y;
  }
  ++observations_;
  Solve();
}

// The weight of an observation (Huber's), and what it says about the fit's errors.
double StepTimeFit::Weigh(double predicted, double seen) {
  constexpr double kFar = 3;        // times the usual
  constexpr double kLeast = 0.002;  // or a fit that is all wrong would never be corrected
  if (observations_ == 0 || seen <= 0) return 1;
  const double off = std::fabs(predicted - seen) / seen;
  const double share = 1 / static_cast<double>(std::min<std::int64_t>(observations_, 50));
  error_ += (std::min(off, 10.0) - error_) * share;
  // Of the prediction, so that what an observation adds to the sums is bounded by it; a quantile,
  // which a few wild ones do not move.
  const double unusual = std::fabs(predicted - seen) / std::max(predicted, 1e-9);
  usual_ = std::clamp(usual_ * (unusual > usual_ ? 1.1 : 0.95), 0.02, 10.0);
  if (observations_ < kPlain || unusual <= kFar * usual_) return 1;
  return std::max(kFar * usual_ / unusual, kLeast);
}

Duration StepTimeFit::Predict(double tokens, double pairs) const {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(time_.Seconds(tokens, pairs)));
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
