// Where a program that took a free port says which one.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/net/endpoint.h"

namespace tandem::net {

// Writes "host:port\n" to the file `path`, so that a watcher finds it whole or not at all; an empty
// path names no file. Errors: Unavailable naming the file.
Status WritePortFile(const std::string& path, const HostPort& address);

}  // namespace tandem::net
