// The x-request-id of an answer: the client's own, for its logs, or a random one. Never a key of
// anything here.
#pragma once

#include <cstdint>
#include <functional>

#include "common/net/http_message.h"

namespace tandem::router {

// Echoes the request's x-request-id if it is 1 to 128 printable ASCII characters.
net::HttpHeader RequestIdOf(const net::HttpRequest& request,
                            const std::function<std::uint64_t()>& random);

}  // namespace tandem::router
