// What a server shows to its handlers: one request and its answer, free of sockets.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/net/byte_budget.h"
#include "common/net/http_message.h"

namespace tandem::net {

enum class GoneReason {
  kDisconnected,  // the client closed, or shut down its sending side
  kSlowReader,    // the client does not read: more unsent than the limit
  kStopped,       // the server closes its connections
};

// A request's body, and its share of what the server may keep of bodies.
struct HttpBody {
  std::string bytes;
  ByteBudget::Hold hold = {};
};

// One request and its answer: either Respond(), or StartStream(), WriteEvent()…, EndStream().
// Whatever is written after the client is gone is dropped. All calls on the server's strand.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual const HttpRequest& request() const = 0;
  // Moves the body out of request(), which keeps an empty one. It counts against the server's
  // bound on bodies for as long as it is kept.
  virtual HttpBody TakeBody() = 0;
  virtual std::string_view peer() const = 0;  // "127.0.0.1:50312", for logs
  // The answer is not complete and the client is there.
  virtual bool open() const = 0;

  // Requires: nothing was answered yet.
  virtual void Respond(HttpResponse response) = 0;
  // `head` without a body; chunks follow.
  virtual void StartStream(HttpResponse head) = 0;
  // Sends `event` as it is, never split over chunks. Requires: between StartStream and EndStream.
  virtual void WriteEvent(std::string_view event) = 0;
  virtual void EndStream() = 0;

  // Of what was written: bytes that the client's socket has not taken yet.
  virtual std::size_t unsent_bytes() const = 0;
  // `taken` is called when the socket has taken some, never inside another call of this object.
  // Dropped after the answer.
  virtual void OnTaken(std::function<void()> taken) = 0;

  // `gone` is called once, never inside another call of this object, if the client leaves before
  // the answer is complete. Dropped after the answer.
  virtual void OnGone(std::function<void(GoneReason)> gone) = 0;
};

using HttpExchangePtr = std::shared_ptr<HttpExchange>;  // shared by connection and handler

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Decides on the head alone, before the body is read or asked for: a response refuses the
  // request. `head` has no body.
  virtual std::optional<HttpResponse> Check(const HttpRequest& head) = 0;
  // Answers now or later, through `exchange`.
  virtual void Handle(HttpExchangePtr exchange) = 0;
  // The answer to bytes that are no request, or that exceed a limit.
  virtual HttpResponse Refuse(const HttpError& error) = 0;
  // Headers that every answer to this request carries, whoever gives it.
  virtual std::vector<HttpHeader> CommonHeaders(const HttpRequest&) { return {}; }
};

}  // namespace tandem::net
