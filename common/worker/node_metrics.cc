#include "common/worker/node_metrics.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

namespace tandem::worker {
namespace {

std::int64_t Whole(double value) {
  constexpr double kMost = 1e18;
  return static_cast<std::int64_t>(std::llround(std::fmin(value, kMost)));
}

std::int64_t Micros(Duration d) {
  return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
}

}  // namespace

void AppendFit(std::string_view what, std::string_view first, std::string_view second,
               const scheduler::StepTimeFit::Quality& fit, std::vector<handoff::NodeMetric>& out) {
  out.push_back({fmt::format("{}_fixed_us", what), Whole(fit.time.fixed_s * 1e6)});
  out.push_back({fmt::format("{}_per_{}_ns", what, first), Whole(fit.time.per_token_s * 1e9)});
  out.push_back({fmt::format("{}_per_{}_ps", what, second), Whole(fit.time.per_pair_s * 1e12)});
  out.push_back({fmt::format("{}_fit_error_permille", what), Whole(fit.error * 1e3)});
  out.push_back({fmt::format("{}_fit_observations", what), fit.observations});
}

void AppendTurns(const CoreTurns* turns, std::vector<handoff::NodeMetric>& out) {
  if (turns == nullptr) return;
  const CoreTurns::Stats stats = turns->stats();
  out.push_back({"turns", stats.turns});
  out.push_back({"turns_given_way", stats.given_way});
  out.push_back({"turns_passed_over", stats.passed_over});
  out.push_back({"turn_wait_us", Micros(stats.waited)});
  out.push_back({"turn_slice_us", Micros(stats.slice)});
}

}  // namespace tandem::worker
