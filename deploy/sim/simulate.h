// `tandem simulate`: seeded histories of the production cores under a virtual clock, with faults.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/config/program_options.h"

namespace tandem::deploy {

struct SimulateOptions {
  bool faults = false;
  bool pauses = false;
  int seeds = 1000;
  int first_seed = 1;
  int seed = 0;  // one history; 0: `seeds` of them
  int threads = 2;
  int requests = 0;  // of one history; 0: as drawn
  int trace = 0;     // lines of one history's end to print
  std::string plan;  // faults of one history instead of its own

  void Register(config::ProgramOptions& options);
};

// Prints as it goes. Errors: InvalidArgument for a plan that makes no sense; Internal when a
// history breaks a rule or pauses are longer than aimed at.
Status RunSimulate(const SimulateOptions& options);

}  // namespace tandem::deploy
