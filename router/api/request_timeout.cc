#include "router/api/request_timeout.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace tandem::router {

ApiResult<Duration> RequestTimeoutOf(const net::HttpRequest& request, Duration limit) {
  constexpr std::string_view kHeader = "x-request-timeout-ms";
  const bool given = std::any_of(request.headers.begin(), request.headers.end(),
                                 [](const net::HttpHeader& h) { return h.name == kHeader; });
  if (!given) return limit;
  const std::string_view text = request.Header(kHeader);
  std::uint64_t milliseconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), milliseconds);
  if (error != std::errc() || end != text.data() + text.size() || milliseconds == 0) {
    return FieldError(kHeader, "{} is '{}', must be a whole number of milliseconds from 1 on",
                      kHeader, Excerpt(text, 40));
  }
  const auto limit_ms =
      static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(limit).count());
  if (milliseconds >= limit_ms) return limit;
  return Duration(std::chrono::milliseconds(static_cast<std::int64_t>(milliseconds)));
}

}  // namespace tandem::router
