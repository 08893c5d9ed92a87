// The HTTP surface: paths, methods, keys, and what each path answers. Completions go on in
// CompletionCall. On the server's strand.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/metrics/registry.h"
#include "common/net/http_exchange.h"
#include "router/api/api_error.h"
#include "router/api/api_keys.h"
#include "router/api/completion_call.h"
#include "router/api/cors.h"

namespace tandem::router {

class ApiHandler : public net::HttpHandler {
 public:
  // All must outlive the handler.
  ApiHandler(const CallContext& context, const ApiKeys& keys, const metrics::Registry& registry,
             std::string version, CorsPolicy cors = CorsPolicy({}));

  std::optional<net::HttpResponse> Check(const net::HttpRequest& head) override;
  void Handle(net::HttpExchangePtr exchange) override;
  net::HttpResponse Refuse(const net::HttpError& error) override;
  std::vector<net::HttpHeader> CommonHeaders(const net::HttpRequest& head) override {
    return cors_.Headers(head);
  }

 private:
  enum class Route {
    kNone,
    kChat,
    kCompletions,
    kModels,
    kModel,
    kHealth,
    kLive,
    kMetrics,
    kVersion,
  };
  static Route RouteOf(std::string_view path);
  static std::string_view MethodOf(Route route);

  std::optional<ApiError> Judge(const net::HttpRequest& head) const;
  // A large body is not read when its request would be refused.
  std::optional<ApiError> JudgeLoad(const net::HttpRequest& head) const;
  net::HttpResponse Answer(Route route, const net::HttpRequest& request) const;
  net::HttpResponse Health() const;
  net::HttpResponse Models() const;
  net::HttpResponse Model(std::string_view id) const;
  std::string ModelJson(std::string_view id) const;

  const CallContext& context_;
  const ApiKeys& keys_;
  const metrics::Registry& registry_;
  const std::string version_;
  const CorsPolicy cors_;
};

}  // namespace tandem::router
