// Which web pages may use the API (CORS, the Fetch standard's protocol). Immutable; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/net/http_message.h"

namespace tandem::router {

class CorsPolicy {
 public:
  // Origins as browsers send them ("https://app.example"), or "*" for all; none: no page may.
  explicit CorsPolicy(std::vector<std::string> origins) : origins_(std::move(origins)) {}

  // Errors: InvalidArgument for what is neither "*" nor scheme://host[:port].
  static Status CheckOrigin(std::string_view origin);

  // For every answer to `request`, errors included; empty where no page may read it.
  std::vector<net::HttpHeader> Headers(const net::HttpRequest& request) const;
  // The answer to OPTIONS, without Headers(). A page that may not gets an answer that allows
  // nothing.
  net::HttpResponse Preflight(const net::HttpRequest& request, std::string_view methods) const;

 private:
  // What access-control-allow-origin says; empty: not allowed.
  std::string Allowed(const net::HttpRequest& request) const;

  std::vector<std::string> origins_;
};

}  // namespace tandem::router
