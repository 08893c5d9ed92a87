#include "router/api/answer_format.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/json_string.h"

namespace tandem::router {
namespace {

std::string UsageJson(const Usage& usage) {
  return fmt::format(R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                     R"("prompt_tokens_details":{{"cached_tokens":{}}}}})",
                     usage.prompt, usage.completion, usage.prompt + usage.completion, usage.cached);
}

std::string NullableReason(std::string_view reason) {
  return reason.empty() ? std::string("null") : fmt::format("\"{}\"", reason);
}

std::string TimingsField(std::string_view timings) {
  return timings.empty() ? std::string() : fmt::format(",\"timings\":{}", timings);
}

}  // namespace

std::string_view FinishReasonName(sequence::FinishReason reason) {
  switch (reason) {
    case sequence::FinishReason::kStop:
      return "stop";
    case sequence::FinishReason::kLength:
      return "length";
    case sequence::FinishReason::kNone:
      break;
  }
  return "";
}

AnswerFormat::AnswerFormat(Options options) : options_(std::move(options)) {
  event_begin_ = "data: " + Begin(options_.kind == CompletionKind::kChat ? "chat.completion.chunk"
                                                                         : "text_completion");
}

std::string AnswerFormat::Begin(std::string_view object) const {
  return fmt::format(R"({{"id":{},"object":"{}","created":{},"model":{},"choices":)",
                     JsonString(options_.id), object, options_.created_unix_s,
                     JsonString(options_.model));
}

std::string AnswerFormat::Choice(std::string_view text, bool first,
                                 std::string_view finish_reason) const {
  std::string out = "[{\"index\":0,";
  if (options_.kind == CompletionKind::kText) {
    out += "\"text\":";
    AppendJsonString(text, out);
  } else {
    out += "\"delta\":{";
    if (first) out += "\"role\":\"assistant\",";
    if (first || !text.empty()) {
      out += "\"content\":";
      AppendJsonString(text, out);
    }
    out += '}';
  }
  out += fmt::format(",\"logprobs\":null,\"finish_reason\":{}}}]", NullableReason(finish_reason));
  return out;
}

std::string AnswerFormat::TextEvent(std::string_view text, bool first, const Usage& usage) const {
  std::string out = event_begin_ + Choice(text, first, {});
  if (options_.continuous_usage) {
    out += ",\"usage\":" + UsageJson(usage);
  } else if (options_.include_usage) {
    out += ",\"usage\":null";
  }
  return out += "}\n\n";
}

std::string AnswerFormat::FinishEvent(std::string_view finish_reason, bool first,
                                      const Usage& usage, std::string_view timings) const {
  std::string out = event_begin_ + Choice({}, first, finish_reason);
  if (options_.continuous_usage) {
    out += ",\"usage\":" + UsageJson(usage);
  } else if (options_.include_usage) {
    out += ",\"usage\":null";
  }
  if (!options_.include_usage) out += TimingsField(timings);
  return out += "}\n\n";
}

std::string AnswerFormat::UsageEvent(const Usage& usage, std::string_view timings) const {
  return event_begin_ + "[],\"usage\":" + UsageJson(usage) + TimingsField(timings) + "}\n\n";
}

std::string AnswerFormat::ErrorEvent(const ApiError& error) {
  return "data: " + error.ToJson() + "\n\n";
}

std::string AnswerFormat::Whole(std::string_view text, std::string_view finish_reason,
                                const Usage& usage, std::string_view timings) const {
  const bool chat = options_.kind == CompletionKind::kChat;
  std::string out = Begin(chat ? "chat.completion" : "text_completion");
  out +=
      chat ? R"([{"index":0,"message":{"role":"assistant","content":)" : R"([{"index":0,"text":)";
  AppendJsonString(text, out);
  if (chat) out += '}';
  out += fmt::format(R"(,"logprobs":null,"finish_reason":{}}}],"usage":{}{}}})",
                     NullableReason(finish_reason), UsageJson(usage), TimingsField(timings));
  return out;
}

}  // namespace tandem::router
