// The core's numbers under the names that heartbeats and log lines give them.
#pragma once

#include <vector>

#include "common/handoff/messages.h"
#include "decode_node/core/decode_core.h"

namespace tandem::decode_node {

std::vector<handoff::NodeMetric> MetricsOf(const DecodeStats& stats);

}  // namespace tandem::decode_node
