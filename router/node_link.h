// The way to one configured node: dials it, dials again after a loss (50 ms, doubling to 2 s), and
// holds the connection while there is one. Lives on the strand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "common/handoff/events.h"
#include "common/handoff/messages.h"
#include "common/net/endpoint.h"
#include "common/net/strand.h"
#include "common/rpc/connection.h"
#include "common/rpc/options.h"

namespace tandem::router {

class NodeLink {
 public:
  struct Events {
    // The node's Hello: call Accept() or Refuse(), now or later.
    std::function<void(const handoff::Hello&)> on_hello;
    std::function<void(handoff::Message)> on_message;
    // An accepted connection has ended; the link dials again by itself.
    std::function<void(handoff::Loss, const Status&)> on_lost;
  };

  // `io` and `strand` must outlive it.
  NodeLink(net::IoThreads& io, const net::Strand& strand, net::HostPort address,
           const rpc::Options& options, handoff::Hello own_hello, Events events);
  ~NodeLink();  // Stop()
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  void Start();
  // Closes the connection and dials no more. No event follows.
  void Stop();

  void Accept();
  void Refuse(std::string field, std::string reason);
  // Drops the connection; on_lost follows when it was accepted.
  void Drop(Status reason);
  // Dropped without a connection.
  void Send(const handoff::Message& message);
  // `answered` gets false when there is no connection.
  void Ping(Duration limit, std::function<void(bool)> answered);

  const net::HostPort& address() const { return address_; }
  bool connected() const { return accepted_; }
  // Why the last try or connection failed.
  const Status& last_error() const { return last_error_; }

 private:
  void Dial();
  void OnDialed(StatusOr<rpc::ConnectionPtr> connection);
  void OnClosed(const Status& reason);
  void DialLater();

  net::IoThreads& io_;
  net::Strand strand_;
  const net::HostPort address_;
  const rpc::Options options_;
  const handoff::Hello own_hello_;
  Events events_;
  net::Timer retry_;
  Duration backoff_;
  rpc::ConnectionPtr connection_;
  bool accepted_ = false;
  bool stopped_ = false;
  bool reported_ = false;  // the present run of failures was logged
  Status last_error_;
  std::shared_ptr<int> alive_;  // callbacks hold it weakly: no link, no call
};

}  // namespace tandem::router
