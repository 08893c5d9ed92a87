// When a step of a node has taken so long that the node counts as stuck.
#pragma once

#include "common/base/time.h"
#include "common/handoff/messages.h"

namespace tandem::router {

// max(10 s, 20 times what the step can take by the node's own fit): every prompt token that waits
// there, as many as fit a step, against a full context; or every running sequence against all used
// blocks. A node without a fit is taken for a very slow one, so that its first long prompt is no
// death. The latest `load` says how long its step runs: more than this, and the node is stuck.
Duration StepLimit(const handoff::Hello& node, const handoff::Heartbeat& load);

}  // namespace tandem::router
