// The OpenAI API as its clients use it: models, and chat with a streamed answer.
//
// One call at a time; Cancel() alone may be called from another thread.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/client/http_client.h"

namespace tandem::client {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

struct ChatRequest {
  std::string model;
  std::vector<ChatMessage> messages;
  // Further fields of the request's body, as they are: {"temperature": 0, "timings": true}.
  boost::json::object extra;
};

struct ChatAnswer {
  std::string text;
  std::string finish_reason;
  boost::json::object usage;    // empty: the server gave none
  boost::json::object timings;  // Tandem's own; empty elsewhere
};

class OpenAiClient {
 public:
  static StatusOr<std::unique_ptr<OpenAiClient>> Create(HttpClient::Options options);

  // The served model ids. Errors: as HttpClient::Fetch and ErrorFrom().
  StatusOr<std::vector<std::string>> Models();

  // Whether GET /health answers 200. Errors: Unavailable when nobody answers.
  StatusOr<bool> Healthy();

  // Streams one answer; `on_text` gets each piece as it comes.
  // Errors: as Models(), and Unavailable when the stream ends before its [DONE].
  StatusOr<ChatAnswer> Chat(const ChatRequest& request,
                            const std::function<void(std::string_view)>& on_text);

  void Cancel() { http_->Cancel(); }

 private:
  explicit OpenAiClient(std::unique_ptr<HttpClient> http) : http_(std::move(http)) {}
  std::unique_ptr<HttpClient> http_;
};

// The status that an HTTP error answer stands for, with the server's own message.
Status ErrorFrom(const HttpClient::Response& response);

}  // namespace tandem::client
