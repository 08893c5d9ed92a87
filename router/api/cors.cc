#include "router/api/cors.h"

#include <algorithm>
#include <cctype>

namespace tandem::router {
namespace {

constexpr std::string_view kRequestHeaders =
    "authorization, content-type, x-api-key, x-request-id, x-request-timeout-ms";

// Whether the client's list of header names may stand in an answer.
bool IsNameList(std::string_view text) {
  return !text.empty() && text.size() <= 1024 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == ',' || c == ' ';
         });
}

}  // namespace

Status CorsPolicy::CheckOrigin(std::string_view origin) {
  if (origin == "*") return OkStatus();
  const std::size_t at = origin.find("://");
  const bool ok = at != std::string_view::npos && at > 0 && origin.size() > at + 3 &&
                  origin.find_first_of("/ \"*,", at + 3) == std::string_view::npos;
  if (ok) return OkStatus();
  return InvalidArgument("'{}' is no origin: give * or scheme://host[:port], without a path",
                         origin);
}

std::string CorsPolicy::Allowed(const net::HttpRequest& request) const {
  const std::string_view origin = request.Header("origin");
  if (origin.empty()) return "";
  for (const std::string& allowed : origins_) {
    if (allowed == "*") return "*";
    if (allowed == origin) return allowed;
  }
  return "";
}

std::vector<net::HttpHeader> CorsPolicy::Headers(const net::HttpRequest& request) const {
  if (origins_.empty()) return {};
  std::vector<net::HttpHeader> headers;
  if (std::string allowed = Allowed(request); !allowed.empty()) {
    headers.push_back({"access-control-allow-origin", std::move(allowed)});
    headers.push_back(
        {"access-control-expose-headers", "x-request-id, retry-after, x-should-retry"});
  }
  headers.push_back({"vary", "origin"});  // caches must not mix answers up
  return headers;
}

net::HttpResponse CorsPolicy::Preflight(const net::HttpRequest& request,
                                        std::string_view methods) const {
  net::HttpResponse response{.content_type = "text/plain"};
  response.headers.push_back({"allow", std::string(methods)});
  if (Allowed(request).empty()) return response;
  const std::string_view asked = request.Header("access-control-request-headers");
  response.headers.push_back({"access-control-allow-methods", std::string(methods)});
  response.headers.push_back(
      {"access-control-allow-headers", std::string(IsNameList(asked) ? asked : kRequestHeaders)});
  response.headers.push_back({"access-control-max-age", "600"});
  return response;
}

}  // namespace tandem::router
