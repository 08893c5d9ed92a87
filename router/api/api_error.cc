#include "router/api/api_error.h"

#include <fmt/format.h>

#include "common/base/json_string.h"

namespace tandem::router {
namespace {

std::string_view ErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string NullableJson(std::string_view text) {
  return text.empty() ? std::string("null") : JsonString(text);
}

}  // namespace

std::string ApiError::ToJson() const {
  return fmt::format(R"({{"error":{{"message":{},"type":"{}","param":{},"code":{}}}}})",
                     JsonString(message), ErrorType(status), NullableJson(param),
                     NullableJson(code));
}

net::HttpResponse ApiError::ToResponse() const {
  net::HttpResponse response{.status = status, .body = ToJson()};
  if (status == 401) response.headers.push_back({"www-authenticate", "Bearer"});
  if (retry_after_s) response.headers.push_back({"retry-after", fmt::format("{}", *retry_after_s)});
  // SDKs retry 408, 409, 429 and every 5xx unless told otherwise.
  if (!should_retry) response.headers.push_back({"x-should-retry", "false"});
  return response;
}

ApiError FromStatus(const Status& status) {
  ApiError error{.message = std::string(FromAbsl(status.message()))};
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      error.status = 400;
      error.code = "invalid_value";
      break;
    case absl::StatusCode::kNotFound:
      error.status = 404;
      break;
    case absl::StatusCode::kResourceExhausted:
      error.status = 429;
      error.code = "overloaded";
      error.should_retry = true;
      error.retry_after_s = 1;
      break;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:  // by us: a client that left gets no answer
      error.status = 503;
      error.code = "unavailable";
      error.should_retry = true;
      error.retry_after_s = 1;
      break;
    case absl::StatusCode::kDeadlineExceeded:
      error.status = 504;
      error.code = "deadline_exceeded";
      break;
    default:
      error.status = 500;
      error.code = "internal_error";
      break;
  }
  return error;
}

std::string Excerpt(std::string_view text, std::size_t bytes_max) {
  std::string out(text.substr(0, bytes_max));
  for (char& c : out) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return out;
}

}  // namespace tandem::router
