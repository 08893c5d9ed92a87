#include "common/scheduler/node_choice.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tandem::scheduler {
namespace {

// What a token costs on a node that has not been measured: only ratios matter then.
constexpr double kUnknownPerToken = 1e-3;

double PromptSeconds(TokenCount prompt, const PrefillLoad& node) {
  const double queued = node.queued_tokens.value();
  const double left = std::max(prompt.value() - node.cached_tokens.value(), 1);
  const double per_token = node.fit.per_token_s > 0 ? node.fit.per_token_s : kUnknownPerToken;
  return per_token * (queued + left) +
         node.fit.per_pair_s *
             ChunkPairs(node.cached_tokens.value(), static_cast<std::int64_t>(left));
}

}  // namespace

std::size_t ChoosePrefill(TokenCount prompt, std::span<const PrefillLoad> nodes) {
  std::size_t best = 0;
  double best_seconds = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const double seconds = PromptSeconds(prompt, nodes[i]);
    // Within 2 % they are equal: measured fits differ by noise, and noise must not starve a node.
    const bool better =
        i == 0 || seconds < best_seconds * 0.98 ||
        (seconds <= best_seconds * 1.02 && nodes[i].last_chosen < nodes[best].last_chosen);
    if (!better) continue;
    best = i;
    best_seconds = seconds;
  }
  return best;
}

std::vector<std::size_t> RankDecode(kv::BlockCount need, std::span<const DecodeLoad> nodes) {
  std::vector<std::size_t> order(nodes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // A whole held prompt is worth half a sequence of load: it saves bytes, not steps.
  auto cost = [&](std::size_t i) {
    const DecodeLoad& node = nodes[i];
    const double held =
        need.value() > 0 ? static_cast<double>(node.held_blocks.value()) / need.value() : 0.0;
    const bool full = node.free_blocks < need;
    return std::tuple(full, node.sequences - 0.5 * std::min(held, 1.0), node.last_chosen, i);
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return cost(a) < cost(b); });
  return order;
}

}  // namespace tandem::scheduler
