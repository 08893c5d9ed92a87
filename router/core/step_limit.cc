#include "router/core/step_limit.h"

#include <algorithm>

#include "common/scheduler/step_time.h"

namespace tandem::router {
namespace {

constexpr double kStepTokensMax = 8192;  // far above what a step is configured to take

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
  return scheduler::StuckAfter({fit.fixed_s, fit.per_token_s, fit.per_pair_s}, tokens, pairs);
}

}  // namespace tandem::router
