#include "router/admin/admin_handler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/json/object.hpp>
#include <charconv>
#include <chrono>
#include <utility>
#include <vector>

#include "common/base/json_string.h"
#include "common/handoff/events.h"
#include "router/api/json_body.h"

namespace tandem::router {
namespace {

constexpr std::string_view kNodes = "/nodes";
constexpr std::string_view kDrain = "/drain";
constexpr Duration kDefaultBudget = std::chrono::seconds(60);

// The NAME of /nodes/NAME/drain, percent-decoded.
std::optional<std::string> DrainedName(std::string_view path) {
  if (!path.starts_with("/nodes/") || !path.ends_with(kDrain)) return std::nullopt;
  path.remove_prefix(kNodes.size() + 1);
  if (path.size() <= kDrain.size()) return std::nullopt;
  path.remove_suffix(kDrain.size());
  std::string name;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      name += path[i];
      continue;
    }
    int byte = 0;
    const char* digits = path.data() + i + 1;
    if (i + 2 >= path.size()) return std::nullopt;
    if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) return std::nullopt;
    name += static_cast<char>(byte);
    i += 2;
  }
  return name;
}

ApiResult<Duration> BudgetOf(std::string_view body) {
  if (body.empty()) return kDefaultBudget;
  auto parsed = ParseJsonObject(body);
  if (ApiError* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const auto& object = std::get<boost::json::object>(parsed);
  for (const auto& [key, value] : object) {
    if (key != "budget_ms") {
      return FieldError(key, "there is no field '{}', only budget_ms", Excerpt(key));
    }
  }
  const boost::json::value* value = object.if_contains("budget_ms");
  if (value == nullptr) return kDefaultBudget;
  constexpr std::int64_t kMax =
      std::chrono::duration_cast<std::chrono::milliseconds>(handoff::kDrainBudgetMax).count();
  const std::int64_t budget = value->is_int64() ? value->as_int64() : -1;
  if (budget < 0 || budget > kMax) {
    return FieldError("budget_ms", "budget_ms must be a whole number from 0 to {}", kMax);
  }
  return Duration(std::chrono::milliseconds(budget));
}

// A node chooses its name: it may be no UTF-8.
std::string Quoted(std::string_view text) { return JsonString(Excerpt(text, 400)); }

std::string ToJson(const NodeStatus& n) {
  return fmt::format(
      R"({{"name":{},"role":"{}","address":{},"incarnation":"{:016x}","state":"{}",)"
      R"("requests":{},"queued":{},"running":{},"queued_tokens":{},"free_blocks":{},)"
      R"("total_blocks":{},"quarantined_blocks":{},"usable_pairs":{},"step_number":{},)"
      R"("step_running_ms":{:.1f},"last_error":{}}})",
      Quoted(n.name), n.role, Quoted(n.address), n.incarnation, n.state, n.requests, n.queued,
      n.running, n.queued_tokens, n.free_blocks, n.total_blocks, n.quarantined_blocks,
      n.usable_pairs, n.step_number, ToMillis(n.step_running),
      n.last_error.empty() ? "null" : Quoted(n.last_error));
}

}  // namespace

std::optional<net::HttpResponse> AdminHandler::Check(const net::HttpRequest& head) {
  if (!keys_.Allow(head)) {
    return ApiError{.status = 401,
                    .message = "no valid API key: send Authorization: Bearer KEY",
                    .code = "invalid_api_key"}
        .ToResponse();
  }
  const bool drains = DrainedName(head.path).has_value();
  if (head.path != kNodes && !drains) {
    return ApiError{.status = 404,
                    .message = fmt::format("there is no path {}; there are: GET /nodes, POST "
                                           "/nodes/NAME/drain",
                                           Excerpt(head.path)),
                    .code = "unknown_path"}
        .ToResponse();
  }
  const std::string_view method = drains ? "POST" : "GET";
  if (head.method != method) {
    net::HttpResponse response =
        ApiError{.status = 405,
                 .message = fmt::format("{} takes {}, not {}", Excerpt(head.path), method,
                                        Excerpt(head.method)),
                 .code = "method_not_allowed"}
            .ToResponse();
    response.headers.push_back({"allow", std::string(method)});
    return response;
  }
  if (drains && !net::ToLower(head.Header("content-type")).starts_with("application/json")) {
    return ApiError{.status = 415,
                    .message = "content-type must be application/json",
                    .code = "unsupported_media_type"}
        .ToResponse();
  }
  return std::nullopt;
}

void AdminHandler::Handle(net::HttpExchangePtr exchange) {
  const net::HttpBody body = exchange->TakeBody();
  const auto name = DrainedName(exchange->request().path);
  exchange->Respond(name ? Drain(*name, body.bytes) : Nodes());
}

net::HttpResponse AdminHandler::Refuse(const net::HttpError& error) {
  return ApiError{.status = error.status, .message = error.message, .code = "bad_request"}
      .ToResponse();
}

net::HttpResponse AdminHandler::Nodes() const {
  std::vector<std::string> nodes;
  std::int32_t pairs = 0;
  for (const NodeStatus& node : cluster_.NodeStatuses()) {
    if (node.role == "prefill") pairs += node.usable_pairs;
    nodes.push_back(ToJson(node));
  }
  return {.body =
              fmt::format(R"({{"usable_pairs":{},"nodes":[{}]}})", pairs, fmt::join(nodes, ","))};
}

net::HttpResponse AdminHandler::Drain(std::string_view name, std::string_view body) {
  auto budget = BudgetOf(body);
  if (const ApiError* error = std::get_if<ApiError>(&budget)) return error->ToResponse();
  const Status status = cluster_.DrainNode(name, std::get<Duration>(budget));
  if (status.ok()) {
    return {.status = 202,
            .body = fmt::format(R"({{"name":{},"state":"draining","budget_ms":{:.0f}}})",
                                Quoted(name), ToMillis(std::get<Duration>(budget)))};
  }
  ApiError error = FromStatus(status);
  if (absl::IsNotFound(status)) error.code = "unknown_node";
  if (absl::IsFailedPrecondition(status)) {
    error.status = 409;
    error.code = "node_not_connected";
  }
  return error.ToResponse();
}

}  // namespace tandem::router
