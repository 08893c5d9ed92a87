#include "router/api/api_handler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "common/base/json_string.h"
#include "router/api/request_id.h"
#include "router/api/request_timeout.h"

namespace tandem::router {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";

std::string_view ContentType(const net::HttpRequest& head) {
  std::string_view type = head.Header("content-type");
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return type;
}

}  // namespace

ApiHandler::ApiHandler(const CallContext& context, const ApiKeys& keys,
                       const metrics::Registry& registry, std::string version, CorsPolicy cors)
    : context_(context),
      keys_(keys),
      registry_(registry),
      version_(std::move(version)),
      cors_(std::move(cors)) {}

ApiHandler::Route ApiHandler::RouteOf(std::string_view path) {
  if (path == "/v1/chat/completions") return Route::kChat;
  if (path == "/v1/completions") return Route::kCompletions;
  if (path == "/v1/models") return Route::kModels;
  if (path.starts_with(kModelPrefix) && path.size() > kModelPrefix.size()) return Route::kModel;
  if (path == "/health" || path == "/ready") return Route::kHealth;
  if (path == "/health/live") return Route::kLive;
  if (path == "/metrics") return Route::kMetrics;
  if (path == "/version") return Route::kVersion;
  return Route::kNone;
}

std::string_view ApiHandler::MethodOf(Route route) {
  return route == Route::kChat || route == Route::kCompletions ? "POST" : "GET";
}

std::optional<ApiError> ApiHandler::Judge(const net::HttpRequest& head) const {
  const Route route = RouteOf(head.path);
  const bool preflight = head.method == "OPTIONS" && route != Route::kNone;
  if (preflight) return std::nullopt;  // a browser asks without the key
  if (route != Route::kLive && !keys_.Allow(head)) {
    return ApiError{.status = 401,
                    .message = "no valid API key: send Authorization: Bearer KEY",
                    .code = "invalid_api_key"};
  }
  if (route == Route::kNone) {
    return ApiError{.status = 404,
                    .message = fmt::format("there is no path {}", Excerpt(head.path)),
                    .code = "unknown_path"};
  }
  if (head.method != MethodOf(route)) {
    return ApiError{.status = 405,
                    .message = fmt::format("{} takes {}, not {}", Excerpt(head.path),
                                           MethodOf(route), Excerpt(head.method)),
                    .code = "method_not_allowed"};
  }
  const std::string_view type = ContentType(head);
  if (head.method == "POST" && !type.empty() && net::ToLower(type) != "application/json") {
    return ApiError{
        .status = 415,
        .message = fmt::format("content-type is '{}', must be application/json", Excerpt(type)),
        .code = "unsupported_media_type"};
  }
  if (head.method == "POST") {
    auto timeout = RequestTimeoutOf(head, context_.deadline);
    if (ApiError* error = std::get_if<ApiError>(&timeout)) return std::move(*error);
    return JudgeLoad(head);
  }
  return std::nullopt;
}

std::optional<ApiError> ApiHandler::JudgeLoad(const net::HttpRequest& head) const {
  const std::string_view length = head.Header("content-length");
  std::size_t bytes = 0;
  std::from_chars(length.data(), length.data() + length.size(), bytes);
  const bool large = length.empty() || bytes > context_.inline_bytes;  // or in chunks
  if (!large) return std::nullopt;
  const Status admitted = context_.backend.Admission();
  if (!absl::IsResourceExhausted(admitted)) return std::nullopt;
  ApiError error = FromStatus(admitted);
  error.retry_after_s = static_cast<int>(std::ceil(ToSeconds(context_.backend.RetryAfter())));
  return error;
}

std::optional<net::HttpResponse> ApiHandler::Check(const net::HttpRequest& head) {
  std::optional<ApiError> error = Judge(head);
  if (!error) return std::nullopt;
  context_.probe.Answered("refused", error->status);
  net::HttpResponse response = error->ToResponse();
  if (error->status == 405) {
    response.headers.push_back({"allow", std::string(MethodOf(RouteOf(head.path)))});
  }
  response.headers.push_back(RequestIdOf(head, context_.random));
  return response;
}

net::HttpResponse ApiHandler::Refuse(const net::HttpError& error) {
  context_.probe.Answered("refused", error.status);
  ApiError answer{.status = error.status, .message = error.message, .code = "bad_request"};
  if (error.status == 413) answer.code = "too_large";
  answer.should_retry = error.status == 408;
  if (error.status == 429) {  // as soon as the client has closed one
    answer.code = "too_many_connections";
    answer.should_retry = true;
    answer.retry_after_s = 1;
  }
  if (error.status == 503) {  // bodies take all the room: as soon as some have become tokens
    answer.code = "overloaded";
    answer.should_retry = true;
    answer.retry_after_s = 1;
  }
  return answer.ToResponse();
}

void ApiHandler::Handle(net::HttpExchangePtr exchange) {
  const Route route = RouteOf(exchange->request().path);
  if (exchange->request().method == "OPTIONS") {
    const std::string methods = fmt::format("{}, OPTIONS", MethodOf(route));
    return exchange->Respond(cors_.Preflight(exchange->request(), methods));
  }
  if (route == Route::kChat) {
    return CompletionCall::Start(context_, CompletionKind::kChat, std::move(exchange));
  }
  if (route == Route::kCompletions) {
    return CompletionCall::Start(context_, CompletionKind::kText, std::move(exchange));
  }
  net::HttpResponse response = Answer(route, exchange->request());
  response.headers.push_back(RequestIdOf(exchange->request(), context_.random));
  exchange->Respond(std::move(response));
}

net::HttpResponse ApiHandler::Answer(Route route, const net::HttpRequest& request) const {
  switch (route) {
    case Route::kModels:
      return Models();
    case Route::kModel:
      return Model(std::string_view(request.path).substr(kModelPrefix.size()));
    case Route::kHealth:
      return Health();
    case Route::kLive:
      return {.body = R"({"status":"alive"})"};
    case Route::kVersion:
      return {.body = fmt::format(R"({{"version":{}}})", JsonString(version_))};
    case Route::kMetrics:
      return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
              .body = registry_.Text() + context_.backend.MetricsText()};
    default:
      return FromStatus(Internal("no answer for {}", Excerpt(request.path))).ToResponse();
  }
}

net::HttpResponse ApiHandler::Health() const {
  net::HttpResponse response{.status = context_.backend.ready() ? 200 : 503,
                             .body = context_.backend.HealthJson()};
  if (response.status == 503) response.headers.push_back({"retry-after", "1"});
  return response;
}

std::string ApiHandler::ModelJson(std::string_view id) const {
  const ServedModel& model = context_.model;
  return fmt::format(R"({{"id":{},"object":"model","created":{},"owned_by":"tandem","root":{},)"
                     R"("max_model_len":{}}})",
                     JsonString(id), model.options().created_unix_s, JsonString(model.id()),
                     context_.backend.context());
}

net::HttpResponse ApiHandler::Models() const {
  std::vector<std::string> entries;
  for (const std::string& id : context_.model.options().ids) entries.push_back(ModelJson(id));
  return {.body = fmt::format(R"({{"object":"list","data":[{}]}})", fmt::join(entries, ","))};
}

net::HttpResponse ApiHandler::Model(std::string_view id) const {
  if (context_.model.Serves(id)) return {.body = ModelJson(id)};
  return ApiError{.status = 404,
                  .message = fmt::format("model '{}' is not served here; there is: {}", Excerpt(id),
                                         fmt::join(context_.model.options().ids, ", ")),
                  .param = "model",
                  .code = "model_not_found"}
      .ToResponse();
}

}  // namespace tandem::router
