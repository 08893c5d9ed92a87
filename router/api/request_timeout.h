// How long a client gives its request: the header x-request-timeout-ms.
#pragma once

#include "common/base/time.h"
#include "common/net/http_message.h"
#include "router/api/api_error.h"

namespace tandem::router {

// From the request's arrival; never more than `limit`, which is also what a request without the
// header gets. Errors: 400 where the header is not a whole number of milliseconds from 1 on.
ApiResult<Duration> RequestTimeoutOf(const net::HttpRequest& request, Duration limit);

}  // namespace tandem::router
