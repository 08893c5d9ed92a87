// The core's numbers under the names that heartbeats and log lines give them.
#pragma once

#include <vector>

#include "common/handoff/messages.h"
#include "prefill_node/core/prefill_core.h"

namespace tandem::prefill_node {

std::vector<handoff::NodeMetric> MetricsOf(const PrefillStats& stats);

}  // namespace tandem::prefill_node
