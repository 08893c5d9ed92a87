#include "decode_node/stats_metrics.h"

#include "common/worker/node_metrics.h"

namespace tandem::decode_node {

std::vector<handoff::NodeMetric> MetricsOf(const DecodeStats& stats) {
  std::vector<handoff::NodeMetric> metrics = {
      {"total_blocks", stats.blocks.total.value()},
      {"used_blocks", stats.blocks.used.value()},
      {"cached_blocks", stats.blocks.cached.value()},
      {"routers", stats.routers},
      {"sources", stats.sources},
      {"reserved", stats.reserved},
      {"sequences", stats.sequences},
      {"stalled", stats.stalled},
      {"quarantined_reservations", stats.quarantined},
      {"leases", stats.leases},
      {"verifying", stats.verifying},
  };
  for (const DecodeStats::Counter& counter : DecodeStats::Counters()) {
    metrics.push_back({std::string(counter.name), stats.*counter.value});
  }
  worker::AppendFit("step", "sequence", "kv_token", stats.step_fit, metrics);
  return metrics;
}

}  // namespace tandem::decode_node
