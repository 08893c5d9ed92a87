#include "prefill_node/stats_metrics.h"

namespace tandem::prefill_node {

std::vector<handoff::NodeMetric> MetricsOf(const PrefillStats& stats) {
  return {
      {"total_blocks", stats.blocks.total.value()},
      {"used_blocks", stats.blocks.used.value()},
      {"cached_blocks", stats.blocks.cached.value()},
      {"routers", stats.routers},
      {"sinks", stats.sinks},
      {"usable_sinks", stats.usable_sinks},
      {"tasks", stats.tasks},
      {"waiting_room", stats.waiting_room},
      {"placements", stats.placements},
      {"draining_placements", stats.draining},
      {"leases", stats.leases},
      {"outstanding_bytes", stats.outstanding_bytes},
      {"accepted", stats.accepted},
      {"refused", stats.refused},
      {"joined", stats.joined},
      {"failed", stats.failed},
      {"cancelled", stats.cancelled},
      {"placed_again", stats.placed_again},
      {"leases_expired", stats.leases_expired},
      {"computed_tokens", stats.computed_tokens},
      {"cached_tokens", stats.cached_tokens},
      {"pushed_bytes", stats.pushed_bytes},
      {"held_blocks", stats.held_blocks},
      {"stale_messages", stats.stale_messages},
  };
}

}  // namespace tandem::prefill_node
