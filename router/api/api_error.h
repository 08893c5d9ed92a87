// Errors as the OpenAI API shows them: {"error":{"message","type","param","code"}}.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "common/base/status.h"
#include "common/net/http_message.h"

namespace tandem::router {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {};     // the field at fault; empty: null
  std::string code = {};      // "context_length_exceeded"; empty: null
  bool should_retry = false;  // 5xx: whether the same request may succeed soon
  std::optional<int> retry_after_s = std::nullopt;  // 429, 503

  std::string ToJson() const;
  net::HttpResponse ToResponse() const;
};

// What an operation gives: its result, or the answer that refuses it.
template <typename T>
using ApiResult = std::variant<T, ApiError>;

// 400 for one field.
template <typename... Args>
ApiError FieldError(std::string_view param, fmt::format_string<Args...> format, Args&&... args) {
  return ApiError{.status = 400,
                  .message = fmt::format(format, std::forward<Args>(args)...),
                  .param = std::string(param),
                  .code = "invalid_value"};
}

// The answer for a request that was taken and failed.
ApiError FromStatus(const Status& status);

// The beginning of a client's text, as printable ASCII: what an error may quote.
std::string Excerpt(std::string_view text, std::size_t bytes_max = 100);

}  // namespace tandem::router
