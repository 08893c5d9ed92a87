// The numbers of what both roles have, under the names that heartbeats and log lines give them.
#pragma once

#include <string_view>
#include <vector>

#include "common/handoff/messages.h"
#include "common/scheduler/step_time.h"
#include "common/worker/core_turns.h"

namespace tandem::worker {

// A fit in whole numbers: `what`_fixed_us, `what`_per_`first`_ns, `what`_per_`second`_ps,
// `what`_fit_error_permille, `what`_fit_observations.
void AppendFit(std::string_view what, std::string_view first, std::string_view second,
               const scheduler::StepTimeFit::Quality& fit, std::vector<handoff::NodeMetric>& out);

// turns, turns_given_way, turns_passed_over, turn_wait_us, turn_slice_us; nothing for null.
void AppendTurns(const CoreTurns* turns, std::vector<handoff::NodeMetric>& out);

}  // namespace tandem::worker
