#include "decode_node/stats_metrics.h"

namespace tandem::decode_node {

std::vector<handoff::NodeMetric> MetricsOf(const DecodeStats& stats) {
  return {
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
      {"reservations", stats.reservations},
      {"refused_full", stats.refused_full},
      {"refused_other", stats.refused_other},
      {"joined", stats.joined},
      {"rejected", stats.rejected},
      {"corrupt", stats.corrupt},
      {"leases_expired", stats.leases_expired},
      {"quarantines", stats.quarantines},
      {"revokes", stats.revokes},
      {"preempted", stats.preempted},
      {"cancelled", stats.cancelled},
      {"finished", stats.finished},
      {"tokens", stats.tokens},
      {"held_blocks", stats.held_blocks},
      {"stale_messages", stats.stale_messages},
  };
}

}  // namespace tandem::decode_node
