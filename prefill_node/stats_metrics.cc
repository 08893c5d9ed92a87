#include "prefill_node/stats_metrics.h"

#include "common/worker/node_metrics.h"

namespace tandem::prefill_node {

std::vector<handoff::NodeMetric> MetricsOf(const PrefillStats& stats) {
  std::vector<handoff::NodeMetric> metrics = {
      {"total_blocks", stats.blocks.total.value()},
      {"used_blocks", stats.blocks.used.value()},
      {"cached_blocks", stats.blocks.cached.value()},
      {"routers", stats.routers},
      {"sinks", stats.sinks},
      {"usable_sinks", stats.usable_sinks},
      {"lost_sinks", stats.lost_sinks},
      {"tasks", stats.tasks},
      {"waiting_room", stats.waiting_room},
      {"placements", stats.placements},
      {"draining_placements", stats.draining},
      {"leases", stats.leases},
      {"outstanding_bytes", stats.outstanding_bytes},
  };
  for (const PrefillStats::Counter& counter : PrefillStats::Counters()) {
    metrics.push_back({std::string(counter.name), stats.*counter.value});
  }
  metrics.push_back({"step_tokens", stats.step_tokens});
  worker::AppendFit("step", "token", "pair", stats.step_fit, metrics);
  worker::AppendFit("link", "write", "byte", stats.link_fit, metrics);
  return metrics;
}

}  // namespace tandem::prefill_node
