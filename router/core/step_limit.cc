#include "router/core/step_limit.h"

#include <algorithm>
#include <chrono>

namespace tandem::router {
namespace {

constexpr Duration kLimitMin = std::chrono::seconds(10);
constexpr double kTimesPredicted = 20;
constexpr double kStepTokensMax = 8192;  // far above what a step is configured to take
constexpr double kUnfittedPerToken = 0.025;
constexpr double kLimitMaxSeconds = 24 * 3600;

}  // namespace

Duration StepLimit(const handoff::Hello& node, const handoff::Heartbeat& load) {
  const handoff::StepTimeFit& fit = load.fit;
  double tokens = 0;
  double pairs = 0;
  if (node.role == handoff::Role::kPrefill) {
    tokens = std::clamp<double>(load.queued_tokens.value(), 0, kStepTokensMax);
    pairs = tokens * std::max(node.capacity.max_context.value(), 0);
  } else {
    tokens = load.running;
    const double used = node.capacity.num_blocks.value() - load.free_blocks.value();
    pairs = std::max(used, 0.0) * node.layout.block_size;
  }
  const bool fitted = fit.fixed_s > 0 || fit.per_token_s > 0 || fit.per_pair_s > 0;
  const double predicted = fitted ? fit.fixed_s + fit.per_token_s * tokens + fit.per_pair_s * pairs
                                  : kUnfittedPerToken * tokens;
  double seconds = kTimesPredicted * predicted;
  if (!(seconds >= 0)) seconds = 0;  // nonsense from the wire
  seconds = std::min(seconds, kLimitMaxSeconds);
  return std::max(kLimitMin,
                  std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

}  // namespace tandem::router
