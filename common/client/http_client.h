// HTTP requests over libcurl, for programs that talk to an OpenAI-compatible server: http and
// https, proxies from the environment, redirects not followed.
//
// One request at a time; Cancel() alone may be called from another thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/base/time.h"

namespace tandem::client {

class HttpClient {
 public:
  struct Options {
    std::string base_url;  // "http://127.0.0.1:8000", with or without "/v1" or a final slash
    std::string api_key;   // empty: none
    Duration connect_timeout = std::chrono::seconds(10);
    // Nothing received for this long ends a request; zero: never.
    Duration silence_timeout = std::chrono::minutes(10);
  };
  struct Response {
    long code = 0;
    std::string content_type;
    std::string body;  // empty where `on_body` took it
  };

  // Errors: InvalidArgument for a URL that is not http or https.
  static StatusOr<std::unique_ptr<HttpClient>> Create(Options options);
  ~HttpClient();

  // GETs, or POSTs `json` when it is not empty, base_url + `path` ("/v1/models"). Body pieces of a
  // 2xx answer go to `on_body` as they come, when given; an error's body is in the response.
  // Errors: Unavailable (no connection, or it broke; the text says what to check),
  // DeadlineExceeded, Cancelled.
  StatusOr<Response> Fetch(const std::string& path, const std::string& json = {},
                           const std::function<Status(std::string_view)>& on_body = nullptr);

  // Ends the request that runs, if any, with Cancelled; the connection is closed, so the server
  // knows.
  void Cancel();

 private:
  struct State;
  explicit HttpClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tandem::client
