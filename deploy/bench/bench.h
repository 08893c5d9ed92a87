// `tandem bench`: loads an OpenAI-compatible server and reports what it did.
#pragma once

#include "common/base/status.h"
#include "deploy/bench/bench_options.h"

namespace tandem::deploy {

inline constexpr int kExitInvalidRun = 3;  // the generator did not keep up
inline constexpr int kExitFailures = 4;    // a request failed or differed

// The exit status: 0, kExitInvalidRun, kExitFailures. The table goes to stdout, progress to stderr.
// SIGINT cancels what runs and reports what is done; a second one ends the program.
// Errors: nothing was measured: a flag or file is wrong, or nobody serves at the URL.
StatusOr<int> Bench(const BenchOptions& options);

}  // namespace tandem::deploy
