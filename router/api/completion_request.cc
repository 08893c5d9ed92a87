#include "router/api/completion_request.h"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <limits>
#include <utility>

#include "router/api/field_reader.h"
#include "router/api/json_body.h"
#include "router/api/unhonoured_fields.h"

namespace tandem::router {
namespace {

namespace json = boost::json;

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

std::string Text(const json::string& text) { return std::string(text.data(), text.size()); }

// Every element an integer of 0 … 2^31-1.
std::optional<TokenIds> ReadIds(FieldReader& fields, std::string_view name,
                                const json::array& array) {
  TokenIds ids;
  ids.reserve(array.size());
  for (const json::value& value : array) {
    std::optional<std::int64_t> id = AsInteger(value);
    if (!id || *id < 0 || *id > kInt32Max) {
      const std::string element = fmt::format("{}[{}]", name, ids.size());
      fields.FailType(element, value, "a token id");
      return std::nullopt;
    }
    ids.push_back(TokenId(static_cast<std::int32_t>(*id)));
  }
  return ids;
}

void ReadPrompt(FieldReader& fields, CompletionRequest& request) {
  constexpr std::string_view kName = "prompt";
  constexpr std::string_view kExpected = "a string or an array of token ids";
  const json::value* value = fields.Take(kName);
  if (value == nullptr) {
    return fields.Fail(FieldError(kName, "prompt is missing, must be {}", kExpected));
  }
  // A list of one prompt is that prompt.
  const json::array* array = value->if_array();
  if (array != nullptr && !array->empty() && !array->front().is_number()) {
    if (array->size() > 1) {
      return fields.Fail(FieldError(kName, "prompt has {} prompts, must be one", array->size()));
    }
    value = &array->front();
    array = value->if_array();
  }
  if (const json::string* text = value->if_string()) {
    request.prompt = Text(*text);
  } else if (array != nullptr) {
    if (array->empty())
      return fields.Fail(FieldError(kName, "prompt is empty, must be {}", kExpected));
    if (auto ids = ReadIds(fields, kName, *array)) request.prompt = *std::move(ids);
  } else {
    fields.FailType(kName, *value, kExpected);
  }
}

// A string, null, or an array of text parts.
std::string ReadContent(FieldReader& message) {
  const json::value* value = message.Take("content");
  if (value == nullptr) return {};
  if (const json::string* text = value->if_string()) return Text(*text);
  const json::array* parts = value->if_array();
  if (parts == nullptr) {
    message.FailType("content", *value, "a string, null or an array of text parts");
    return {};
  }
  std::string content;
  for (std::size_t i = 0; i < parts->size(); ++i) {
    const std::string name = fmt::format("content[{}]", i);
    const json::object* object = (*parts)[i].if_object();
    if (object == nullptr) {
      message.FailType(name, (*parts)[i], "an object");
      return {};
    }
    FieldReader part(*object, message.FullName(name) + ".");
    std::optional<std::string> type = part.String("type");
    if (!part.error() && type != "text") {
      part.Fail(FieldError(part.FullName("type"), "{} is '{}', only text parts are supported here",
                           part.FullName("type"), Excerpt(type.value_or(""))));
    }
    std::optional<std::string> text = part.String("text");
    if (!part.error() && !text) {
      part.Fail(FieldError(part.FullName("text"), "{} is missing", part.FullName("text")));
    }
    if (part.error()) {
      message.Fail(*part.error());
      return {};
    }
    if (i > 0) content += '\n';
    content += *text;
  }
  return content;
}

bool IsRole(std::string_view role) {
  return role == "system" || role == "developer" || role == "user" || role == "assistant";
}

ChatMessage ReadMessage(FieldReader& message, CompletionRequest& request) {
  ChatMessage out;
  out.role = message.String("role").value_or("");
  if (!message.error() && !IsRole(out.role)) {
    message.Fail(FieldError(message.FullName("role"),
                            "{} is '{}', must be system, developer, user or assistant",
                            message.FullName("role"), Excerpt(out.role)));
  }
  const json::value* content = message.Take("content");
  if (content == nullptr && !message.error() && out.role != "assistant") {
    message.Fail(FieldError(message.FullName("content"), "{} is missing or null, must be text",
                            message.FullName("content")));
  }
  out.content = ReadContent(message);
  out.name = message.String("name").value_or("");
  for (std::string_view name : {"tool_calls", "function_call", "audio", "refusal"}) {
    const json::value* value = message.Take(name);
    if (value == nullptr || (value->is_array() && value->get_array().empty())) continue;
    message.Fail(ApiError{
        .status = 400,
        .message = fmt::format("{} is not supported here: leave it out", message.FullName(name)),
        .param = message.FullName(name),
        .code = "unsupported_parameter"});
  }
  message.ForEachUntaken([&](std::string_view, const json::value&) { ++request.unknown_fields; });
  return out;
}

void ReadMessages(FieldReader& fields, CompletionRequest& request) {
  const json::value* value = fields.Take("messages");
  const json::array* array = value == nullptr ? nullptr : value->if_array();
  if (fields.error()) return;
  if (array == nullptr || array->empty() || array->size() > kMessagesMax) {
    return fields.Fail(FieldError("messages",
                                  "messages is {}, must be an array of 1 to {} messages",
                                  value == nullptr   ? "missing"
                                  : array == nullptr ? Describe(*value)
                                                     : fmt::format("{} messages", array->size()),
                                  kMessagesMax));
  }
  request.messages.reserve(array->size());
  for (std::size_t i = 0; i < array->size() && !fields.error(); ++i) {
    const std::string name = fmt::format("messages[{}]", i);
    const json::object* object = (*array)[i].if_object();
    if (object == nullptr) return fields.FailType(name, (*array)[i], "an object");
    FieldReader message(*object, name + ".");
    request.messages.push_back(ReadMessage(message, request));
    if (message.error()) fields.Fail(*message.error());
  }
}

void ReadSampling(FieldReader& fields, CompletionRequest& request) {
  request.temperature = fields.Number("temperature", {.min = 0, .max = 2}).value_or(1);
  request.top_p = fields.Number("top_p", {.min = 0, .max = 1, .open_min = true}).value_or(1);
  request.min_p = fields.Number("min_p", {.min = 0, .max = 1}).value_or(0);
  // -1 is "off" to some clients.
  const std::int64_t top_k = fields.Integer("top_k", {.min = -1, .max = kInt32Max}).value_or(0);
  request.top_k = top_k < 0 ? 0 : static_cast<std::int32_t>(top_k);
  if (auto seed = fields.Integer("seed", {.min = std::numeric_limits<std::int64_t>::min(),
                                          .max = std::numeric_limits<std::int64_t>::max()})) {
    request.seed = static_cast<std::uint64_t>(*seed);
  }
}

void ReadStop(FieldReader& fields, CompletionRequest& request) {
  if (const json::value* value = fields.Take("stop")) {
    json::array one;
    const json::array* strings = value->if_array();
    if (value->is_string()) {
      one.push_back(*value);
      strings = &one;
    }
    if (strings == nullptr || strings->size() > kStopStringsMax) {
      fields.FailType("stop", *value,
                      fmt::format("a string or an array of at most {} strings", kStopStringsMax));
      return;
    }
    for (const json::value& element : *strings) {
      const json::string* text = element.if_string();
      if (text == nullptr || text->empty() || text->size() > kStopStringBytesMax) {
        return fields.Fail(
            FieldError("stop", "stop has {}, must be strings of 1 to {} bytes",
                       text == nullptr ? Describe(element) : fmt::format("{} bytes", text->size()),
                       kStopStringBytesMax));
      }
      request.stop.push_back(Text(*text));
    }
  }
  if (const json::value* value = fields.Take("stop_token_ids")) {
    const json::array* array = value->if_array();
    if (array == nullptr || array->size() > kStopTokenIdsMax) {
      return fields.FailType("stop_token_ids", *value,
                             fmt::format("an array of at most {} token ids", kStopTokenIdsMax));
    }
    if (auto ids = ReadIds(fields, "stop_token_ids", *array)) {
      request.stop_token_ids = *std::move(ids);
    }
  }
  request.ignore_eos = fields.Bool("ignore_eos").value_or(false);
}

void ReadStreaming(FieldReader& fields, CompletionRequest& request) {
  request.stream = fields.Bool("stream").value_or(false);
  request.timings = fields.Bool("timings").value_or(false);
  const json::value* value = fields.Take("stream_options");
  if (value == nullptr) return;
  const json::object* object = value->if_object();
  if (object == nullptr) return fields.FailType("stream_options", *value, "an object");
  if (!request.stream) {
    return fields.Fail(
        FieldError("stream_options", "stream_options is given, but stream is not true"));
  }
  FieldReader options(*object, "stream_options.");
  request.include_usage = options.Bool("include_usage").value_or(false);
  request.continuous_usage = options.Bool("continuous_usage_stats").value_or(false);
  options.ForEachUntaken([&](std::string_view, const json::value&) { ++request.unknown_fields; });
  if (options.error()) fields.Fail(*options.error());
}

void ReadLength(FieldReader& fields, CompletionRequest& request) {
  const IntegerRange range{.min = 1, .max = kInt32Max};
  std::optional<std::int64_t> old_name = fields.Integer("max_tokens", range);
  std::optional<std::int64_t> tokens = fields.Integer("max_completion_tokens", range);
  if (!tokens) tokens = old_name;
  if (tokens) request.max_tokens = TokenCount(static_cast<std::int32_t>(*tokens));
}

}  // namespace

ApiResult<CompletionRequest> ParseCompletionRequest(std::string_view body, CompletionKind kind) {
  ApiResult<json::object> parsed = ParseJsonObject(body);
  if (ApiError* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  FieldReader fields(std::get<json::object>(parsed));
  CompletionRequest request;
  request.kind = kind;
  request.model = fields.String("model").value_or("");
  fields.String("user");
  kind == CompletionKind::kChat ? ReadMessages(fields, request) : ReadPrompt(fields, request);
  ReadLength(fields, request);
  ReadSampling(fields, request);
  ReadStop(fields, request);
  ReadStreaming(fields, request);
  fields.ForEachUntaken([&](std::string_view name, const json::value& value) {
    switch (JudgeField(kind, name, value)) {
      case FieldVerdict::kUnknown:
        ++request.unknown_fields;
        break;
      case FieldVerdict::kNeutral:
        break;
      case FieldVerdict::kRefused:
        fields.Fail(UnhonouredError(kind, name, value));
        break;
    }
  });
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace tandem::router
