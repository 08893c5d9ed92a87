// The admin port: what an operator may see and do. Never on the public port.
//
//   GET  /nodes              → {"usable_pairs":1,"nodes":[{"name":"decode-0","state":"up",…}]}
//   POST /nodes/NAME/drain   {"budget_ms":60000} → 202
//
// With API keys configured each call needs one. A POST must say content-type: application/json, so
// that no web page can send it without asking first; and nobody answers such a question here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/net/http_exchange.h"
#include "router/admin/cluster_admin.h"
#include "router/api/api_error.h"
#include "router/api/api_keys.h"

namespace tandem::router {

class AdminHandler : public net::HttpHandler {
 public:
  // Both must outlive the handler.
  AdminHandler(ClusterAdmin& cluster, const ApiKeys& keys) : cluster_(cluster), keys_(keys) {}

  std::optional<net::HttpResponse> Check(const net::HttpRequest& head) override;
  void Handle(net::HttpExchangePtr exchange) override;
  net::HttpResponse Refuse(const net::HttpError& error) override;

 private:
  net::HttpResponse Nodes() const;
  net::HttpResponse Drain(std::string_view name, std::string_view body);

  ClusterAdmin& cluster_;
  const ApiKeys& keys_;
};

}  // namespace tandem::router
