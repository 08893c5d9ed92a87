#include "common/client/openai_client.h"

#include <boost/json.hpp>

#include "common/client/sse_parser.h"

namespace tandem::client {
namespace {

namespace json = boost::json;

const json::value* Find(const json::value& value, std::string_view key) {
  const json::object* object = value.if_object();
  return object == nullptr ? nullptr
                           : object->if_contains(json::string_view(key.data(), key.size()));
}

std::string TextOr(const json::value* value, std::string_view otherwise) {
  const json::string* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string(otherwise) : std::string(text->data(), text->size());
}

absl::StatusCode CodeFor(long http) {
  switch (http) {
    case 404:
      return absl::StatusCode::kNotFound;
    case 408:
    case 504:
      return absl::StatusCode::kDeadlineExceeded;
    case 429:
      return absl::StatusCode::kResourceExhausted;
    case 503:
      return absl::StatusCode::kUnavailable;
    default:
      return http / 100 == 4 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kInternal;
  }
}

// Adds one stream event to the answer. Errors: the error that the event carries.
Status AddEvent(const json::value& event, ChatAnswer& answer,
                const std::function<void(std::string_view)>& on_text) {
  if (const json::value* error = Find(event, "error")) {
    return Internal("the server ended the stream: {}",
                    TextOr(Find(*error, "message"), "no reason given"));
  }
  for (auto [field, into] : {std::pair{"usage", &answer.usage}, {"timings", &answer.timings}}) {
    const json::value* value = Find(event, field);
    if (value != nullptr && value->is_object()) *into = value->get_object();
  }
  const json::value* choices = Find(event, "choices");
  if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return OkStatus();
  const json::value& choice = choices->get_array().front();
  if (const json::value* delta = Find(choice, "delta")) {
    const std::string text = TextOr(Find(*delta, "content"), "");
    answer.text += text;
    if (!text.empty()) on_text(text);
  }
  const std::string reason = TextOr(Find(choice, "finish_reason"), "");
  if (!reason.empty()) answer.finish_reason = reason;
  return OkStatus();
}

std::string Body(const ChatRequest& request) {
  json::object body = request.extra;
  body["model"] = request.model;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  json::array& messages = body["messages"].emplace_array();
  for (const ChatMessage& message : request.messages) {
    messages.push_back({{"role", message.role}, {"content", message.content}});
  }
  return json::serialize(body);
}

}  // namespace

Status ErrorFrom(const HttpClient::Response& response) {
  boost::system::error_code bad;
  const json::value body = json::parse(response.body, bad);
  std::string message;
  if (!bad) {
    if (const json::value* error = Find(body, "error"))
      message = TextOr(Find(*error, "message"), "");
  }
  if (message.empty()) message = response.body.substr(0, 200);
  return MakeStatus(CodeFor(response.code), "HTTP {}: {}", response.code, message);
}

StatusOr<std::unique_ptr<OpenAiClient>> OpenAiClient::Create(HttpClient::Options options) {
  TANDEM_ASSIGN_OR_RETURN(auto http, HttpClient::Create(std::move(options)));
  return std::unique_ptr<OpenAiClient>(new OpenAiClient(std::move(http)));
}

StatusOr<std::vector<std::string>> OpenAiClient::Models() {
  TANDEM_ASSIGN_OR_RETURN(HttpClient::Response response, http_->Fetch("/v1/models"));
  if (response.code != 200) return ErrorFrom(response);
  boost::system::error_code bad;
  const json::value body = json::parse(response.body, bad);
  const json::value* data = bad ? nullptr : Find(body, "data");
  if (data == nullptr || !data->is_array()) {
    return Internal(
        "/v1/models did not answer with a list of models; is this an OpenAI-compatible server?");
  }
  std::vector<std::string> ids;
  for (const json::value& model : data->get_array()) ids.push_back(TextOr(Find(model, "id"), ""));
  return ids;
}

StatusOr<bool> OpenAiClient::Healthy() {
  TANDEM_ASSIGN_OR_RETURN(HttpClient::Response response, http_->Fetch("/health"));
  return response.code == 200;
}

StatusOr<ChatAnswer> OpenAiClient::Chat(const ChatRequest& request,
                                        const std::function<void(std::string_view)>& on_text) {
  ChatAnswer answer;
  SseParser parser;
  bool done = false;
  Status failed;
  const auto on_event = [&](std::string_view data) {
    if (!failed.ok() || done) return;
    done = data == "[DONE]";
    if (done) return;
    boost::system::error_code bad;
    const json::value event = json::parse(json::string_view(data.data(), data.size()), bad);
    failed = bad ? Internal("an event of the stream is not JSON: {}", bad.message())
                 : AddEvent(event, answer, on_text);
  };
  const std::function<Status(std::string_view)> on_body = [&](std::string_view bytes) {
    TANDEM_RETURN_IF_ERROR(parser.Feed(bytes, on_event));
    return failed;
  };
  TANDEM_ASSIGN_OR_RETURN(HttpClient::Response response,
                          http_->Fetch("/v1/chat/completions", Body(request), on_body));
  if (response.code != 200) return ErrorFrom(response);
  if (!done) return Unavailable("the stream ended before its [DONE]");
  return answer;
}

}  // namespace tandem::client
