// `tandem get nodes`: the cluster as a table.
#pragma once

#include "common/base/status.h"
#include "deploy/admin/admin_flags.h"

namespace tandem::deploy {

struct GetNodesOptions {
  AdminFlags admin;
  bool json = false;

  void Register(config::ProgramOptions& options);
};

// Prints to stdout. Errors: no router found, or none answers.
Status GetNodes(const GetNodesOptions& options);

}  // namespace tandem::deploy
