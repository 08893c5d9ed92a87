// Many HTTP requests at once on one thread, over libcurl's multi interface and epoll.
//
//   pool->Start("/v1/completions", body, sink);
//   while (pool->running() > 0) pool->Poll(SteadyNow() + std::chrono::milliseconds(5));
//
// Nothing blocks but Poll(), which waits for sockets. Connections are kept and used again; libcurl
// itself sends a request once more when a kept connection turns out to be closed before a byte of
// the answer came. Not thread-safe: one thread makes all calls, and the sinks run inside Poll().
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/client/http_client.h"

namespace tandem::client {

class RequestPool {
 public:
  // How a request ended, seen from the connection.
  enum class End {
    kComplete,    // the answer was read to its end, whatever its status
    kRefused,     // nobody listens there
    kNoConnect,   // no connection for another reason
    kReset,       // the connection broke
    kEndedEarly,  // the server closed before the answer's end
    kTimeout,
    kAborted,  // by the sink
    kOther,
  };
  struct Ended {
    End end = End::kComplete;
    int status = 0;      // of HTTP; 0: no answer came
    std::string detail;  // of what went wrong
  };
  class Sink {
   public:
    virtual ~Sink() = default;
    // Before the first byte of a body: the HTTP status.
    virtual void OnStatus(int status) = 0;
    // False aborts the request.
    virtual bool OnBody(std::string_view bytes) = 0;
    // The last call; may start further requests.
    virtual void OnEnd(const Ended& ended) = 0;
  };

  struct Options {
    HttpClient::Options server;
    Duration request_timeout{};  // zero: none
  };

  // Errors: InvalidArgument for a URL that is not http or https.
  static StatusOr<std::unique_ptr<RequestPool>> Create(Options options);
  // Ends what runs; no sink hears of it.
  ~RequestPool();

  // Posts `json` to base_url + `path`. `sink` must live until its OnEnd().
  void Start(const std::string& path, std::string json, Sink& sink);

  std::size_t running() const;

  // Waits until sockets are ready or `until`, and serves those that are.
  void Poll(Time until);

  // Closes the connections of all running requests; their sinks get OnEnd(kAborted).
  void AbortAll();

 private:
  struct State;
  explicit RequestPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tandem::client
