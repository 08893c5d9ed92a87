// A request to /v1/completions or /v1/chat/completions, parsed and checked: everything that does
// not need the model. From here on nobody looks at the client's JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/units.h"
#include "router/api/api_error.h"

namespace tandem::router {

enum class CompletionKind { kText, kChat };

struct ChatMessage {
  std::string role;
  std::string content;
  std::string name;  // empty: none
};

struct CompletionRequest {
  CompletionKind kind = CompletionKind::kText;
  std::string model;  // empty: the served one
  // kText; as the client wrote it, or its ids (in the vocabulary's range only once checked).
  std::variant<std::string, TokenIds> prompt;
  std::vector<ChatMessage> messages;  // kChat

  std::optional<TokenCount> max_tokens;  // none: what the context leaves
  double temperature = 1;
  double top_p = 1;
  double min_p = 0;
  std::int32_t top_k = 0;  // 0: off
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stop;  // at most kStopStringsMax, none empty
  TokenIds stop_token_ids;
  bool ignore_eos = false;

  bool stream = false;
  bool include_usage = false;     // stream_options
  bool continuous_usage = false;  // stream_options.continuous_usage_stats
  bool timings = false;

  std::int32_t unknown_fields = 0;
};

inline constexpr std::size_t kStopStringsMax = 16;
inline constexpr std::size_t kStopStringBytesMax = 1024;
inline constexpr std::size_t kStopTokenIdsMax = 1024;
inline constexpr std::size_t kMessagesMax = 16384;

// Errors: 400 naming the first field that is wrong, its value and what it may be; a field that is
// known and not honoured here is one of them unless it is null or neutral.
ApiResult<CompletionRequest> ParseCompletionRequest(std::string_view body, CompletionKind kind);

}  // namespace tandem::router
