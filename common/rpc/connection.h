// One control connection between two processes: typed messages both ways, in order or not at all.
//
// It sends and answers heartbeats and pings by itself, from the I/O threads, and closes when
// nothing was heard for Options::silence_limit. A frame is a 4-byte little-endian length and as
// many bytes of common/proto/handoff.proto's Frame.
//
//   dialer                         listener
//     own Hello ───────────────────►  on_hello → Accept() or Refuse()
//     on_hello ◄───────────────────  own Hello (by Accept()) or HelloRefused
//     Accept() or Refuse()
//   then messages both ways; Hello, HelloRefused, Ping and Pong never reach on_message.
//
// Handlers run on the owner's strand, one at a time, on_closed last and exactly once. Send(),
// Close() and Ping() may be called from any thread. After on_closed it keeps nothing of the owner.
// It must not outlive its IoThreads.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/handoff/messages.h"
#include "common/net/strand.h"
#include "common/rpc/options.h"

namespace tandem::rpc {

class Connection;
using ConnectionPtr = std::shared_ptr<Connection>;  // shared with the I/O in flight

class Connection {
 public:
  struct Handlers {
    // The peer's Hello. Nothing more is delivered until Accept() or Refuse(), at once or later.
    std::function<void(const handoff::Hello&)> on_hello;
    std::function<void(handoff::Message)> on_message;
    // Why it ended: Unavailable (peer gone), Cancelled (peer gone after a heartbeat that said
    // draining), DeadlineExceeded (peer silent), FailedPrecondition (a Hello was refused:
    // "model_instance: …"), InvalidArgument (the peer sent nonsense), ResourceExhausted (the peer
    // does not read), or what Close() was given.
    std::function<void(const Status&)> on_closed;
    // What the next heartbeat says, asked for on the owner's strand each heartbeat_every. Not set:
    // an empty one. A strand that is busy delays its numbers, never the heartbeat itself.
    std::function<handoff::Heartbeat()> heartbeat;
  };

  virtual ~Connection() = default;

  // Begins reading. Requires: called once, on the owner's strand. Handlers are dropped after
  // on_closed, so they may own what they capture.
  virtual void Start(handoff::Hello own_hello, Handlers handlers) = 0;

  // Answers the peer's Hello. Requires: inside or after on_hello, once.
  virtual void Accept() = 0;
  // Tells the peer which field does not fit, and closes.
  virtual void Refuse(std::string field, std::string reason) = 0;

  // Queues a message. Silently dropped when closed: on_closed tells or has told.
  virtual void Send(const handoff::Message& message) = 0;

  // Calls `answered` on the owner's strand: true when the peer's Pong came within `limit`, false
  // when not or closed.
  virtual void Ping(Duration limit, std::function<void(bool)> answered) = 0;

  // Writes what is queued (for at most a second), then closes; on_closed gets `reason`.
  virtual void Close(Status reason) = 0;

  virtual std::string remote_address() const = 0;  // for logs
};

}  // namespace tandem::rpc
