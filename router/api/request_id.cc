#include "router/api/request_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace tandem::router {

net::HttpHeader RequestIdOf(const net::HttpRequest& request,
                            const std::function<std::uint64_t()>& random) {
  std::string_view given = request.Header("x-request-id");
  const bool printable =
      std::all_of(given.begin(), given.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  if (!given.empty() && given.size() <= 128 && printable) {
    return {"x-request-id", std::string(given)};
  }
  return {"x-request-id", fmt::format("req-{:016x}", random())};
}

}  // namespace tandem::router
