// An HTTP/1.1 server: keep-alive, pipelined requests answered in order, chunked streams.
//
//   auto server = HttpServer::Open(io, strand, {"127.0.0.1", 8000}, handler, {});
//   ...
//   (*server)->Stop([] { … });   // no new connections; what runs may end
//   (*server)->Close();          // ends what is left
//
// Every connection always has a read outstanding while its input buffer has room, so a client that
// leaves is noticed at once, whatever the request waits for. Lives on `strand`.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/net/endpoint.h"
#include "common/net/http_exchange.h"
#include "common/net/http_message.h"
#include "common/net/strand.h"

namespace tandem::net {

struct HttpServerOptions {
  HttpLimits limits;
  // From a request's first byte to the end of its head.
  Duration header_timeout = std::chrono::seconds(10);
  // Between requests.
  Duration idle_timeout = std::chrono::seconds(120);
  // Without a byte of the body, or without a byte of the answer taken.
  Duration stall_timeout = std::chrono::seconds(30);
  // After an answer that leaves a body unread: how long that body is read and dropped, so that the
  // answer arrives before the connection ends.
  Duration linger = std::chrono::seconds(3);
  // At this number answers are the last of their connections and idle ones are closed, the longest
  // idle first; further ones wait in the kernel's queue while every connection is busy.
  std::size_t max_connections = 1024;
  // From one address (IPv6: one /64 network); further ones are answered 429 and closed.
  std::size_t max_connections_per_address = 1024;
  // Of request bodies, all connections together, until the handlers let go of them; a body that
  // would exceed it is answered 503.
  std::size_t max_bodies_bytes = 256 << 20;
  std::size_t max_unsent_bytes = 1 << 20;      // of a stream; more: the client is too slow
  std::size_t max_pipelined_bytes = 64 << 10;  // read ahead while a request is being answered
};

struct HttpServerCounts {
  std::size_t connections = 0;  // open now
  std::size_t exchanges = 0;    // being answered now
  std::size_t refused = 0;      // of an address that has too many, since the start
  std::size_t body_bytes = 0;   // of request bodies, kept now
};

class HttpServer {
 public:
  // Binds and listens; port 0 takes a free one. `handler` must outlive the server.
  // Requires: called on `strand`, or before its threads see the server.
  // Errors: Unavailable naming the address (in use, not of this host, unknown name).
  static StatusOr<std::unique_ptr<HttpServer>> Open(IoThreads& io, const Strand& strand,
                                                    const HostPort& address, HttpHandler& handler,
                                                    const HttpServerOptions& options);
  virtual ~HttpServer() = default;  // Close()

  virtual HostPort address() const = 0;  // with the port that was bound
  virtual HttpServerCounts counts() const = 0;

  // Stops accepting and closes idle connections; the others end after their answer. `stopped` runs
  // on the strand once no connection is left.
  virtual void Stop(Closure stopped) = 0;
  // Ends every connection now.
  virtual void Close() = 0;
};

}  // namespace tandem::net
