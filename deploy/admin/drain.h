// `tandem drain NODE`: lets a node finish what it has, and end.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/base/time.h"
#include "deploy/admin/admin_flags.h"

namespace tandem::deploy {

struct DrainOptions {
  std::string node;  // the argument
  AdminFlags admin;
  Duration budget = std::chrono::seconds(60);
  bool wait = false;

  void Register(config::ProgramOptions& options);
};

// With `wait` it returns when the node is gone, and tells progress on stderr. Errors:
// InvalidArgument, NotFound, FailedPrecondition, Unavailable; DeadlineExceeded when it is still
// there well after its budget.
Status Drain(const DrainOptions& options);

}  // namespace tandem::deploy
