// UCX's status codes as ours.
#pragma once

#include <ucs/type/status.h>

#include <string_view>

#include "common/base/status.h"

namespace tandem::transfer::ucx {

// "cannot create an endpoint: Destination is unreachable". Ok for UCS_OK.
Status FromUcs(ucs_status_t status, std::string_view what);

}  // namespace tandem::transfer::ucx
