// `tandem serve`: a local cluster in the foreground.
#pragma once

#include <filesystem>

#include "common/base/status.h"
#include "deploy/serve/serve_options.h"

namespace tandem::deploy {

// Returns when the user stopped it (Ctrl-C, SIGTERM), or after the answer with `once`, and all
// children ended well. Errors: what kept it from starting; Unavailable when a child died (the
// others are stopped first).
Status Serve(const ServeOptions& options, const std::filesystem::path& programs);

}  // namespace tandem::deploy
