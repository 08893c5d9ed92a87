// Bytes to HTTP/1.1 messages, incrementally: no sockets, no clock. One parser reads one message.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/net/http_message.h"

namespace tandem::net {

// What a parser made of the bytes it was shown.
struct ParseProgress {
  std::size_t consumed = 0;        // bytes to drop from the front; show the rest again with more
  std::optional<HttpError> error;  // the message cannot be read; nothing after it can be either
};

// Reads one request. Refuses what could be read in two ways (both lengths, several lengths,
// unknown transfer codings) and whatever exceeds the limits, before storing it.
class HttpRequestParser {
 public:
  explicit HttpRequestParser(const HttpLimits& limits);
  ~HttpRequestParser();
  HttpRequestParser(HttpRequestParser&&) noexcept;
  HttpRequestParser& operator=(HttpRequestParser&&) noexcept;

  // Stops once after the head (so that a request can be refused before its body) and at the end.
  // Requires: not done(), no error before.
  ParseProgress Consume(std::string_view bytes);

  bool has_head() const;  // the head is complete
  bool done() const;
  bool keep_alive() const;  // Requires: has_head()
  bool has_body() const;    // Requires: has_head(). Whether the head announces one
  bool expects_continue() const;
  void DropBody();                    // what came of it. Requires: nothing more is consumed
  std::size_t body_capacity() const;  // bytes that the body takes so far
  // Complete when done(); everything but the body once has_head().
  HttpRequest& request();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Reads one response; the body is taken while it comes.
class HttpResponseParser {
 public:
  explicit HttpResponseParser(const HttpLimits& limits);
  ~HttpResponseParser();

  // Requires: not done(), no error before.
  ParseProgress Consume(std::string_view bytes);
  // The peer has closed. Errors: the message was not complete.
  std::optional<HttpError> ConsumeEof();

  bool has_head() const;
  bool done() const;
  bool keep_alive() const;
  int status() const;
  const std::vector<HttpHeader>& headers() const;
  std::string_view Header(std::string_view name) const;
  // Body bytes since the last call.
  std::string TakeBody();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::net
