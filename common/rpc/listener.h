// Accepts control connections.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "common/base/status.h"
#include "common/net/endpoint.h"
#include "common/net/strand.h"
#include "common/rpc/connection.h"

namespace tandem::rpc {

// Owned and used on `strand`, except construction.
class Listener {
 public:
  // Binds and listens; port 0 takes a free one. `on_connection` runs on `strand` for each
  // connection, which must be Start()ed there.
  // Errors: Unavailable naming the address (in use, not of this host, unknown name).
  static StatusOr<std::unique_ptr<Listener>> Open(net::IoThreads& io, const net::Strand& strand,
                                                  const net::HostPort& address,
                                                  const Options& options,
                                                  std::function<void(ConnectionPtr)> on_connection);
  // Closes; connections stay.
  virtual ~Listener() = default;

  // With the port that was bound.
  virtual net::HostPort address() const = 0;
};

// Connects to `address`. Calls `done` on `strand` with a connection to Start(), or the error
// (Unavailable, naming the address). Trying again is the caller's.
void Dial(net::IoThreads& io, const net::Strand& strand, const net::HostPort& address,
          const Options& options, std::function<void(StatusOr<ConnectionPtr>)> done);

}  // namespace tandem::rpc
