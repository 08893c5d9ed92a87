// A node's control connections: those that were accepted (routers; sources at a decode node) and
// those it dials (sinks of a prefill node). Checks each Hello, gives each life of a peer its
// NodeId, keeps one connection a peer, and dials again what was lost.
//
// A Hello with a known name and the same incarnation ends the older connection. With another
// incarnation it is refused while the older connection answers a ping (two nodes with one name).
//
// Everything but Listen happens on the strand.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/handoff/messages.h"
#include "common/handoff/node_directory.h"
#include "common/net/strand.h"
#include "common/rpc/connection.h"
#include "common/rpc/listener.h"

namespace tandem::worker {

class PeerTable {
 public:
  struct Events {
    // Nothing, or why this peer does not fit.
    std::function<std::optional<handoff::HelloRefused>(const handoff::Hello&)> check;
    std::function<void(handoff::NodeId, const handoff::Hello&)> connected;
    std::function<void(handoff::NodeId, handoff::Role)> lost;
    std::function<void(handoff::NodeId, handoff::Message)> message;
    std::function<handoff::Heartbeat(handoff::NodeId)> heartbeat;
  };

  // `own` lacks only rpc_address, which Listen adds.
  PeerTable(net::IoThreads& io, const net::Strand& strand, const rpc::Options& options,
            handoff::Hello own, Events events);
  ~PeerTable();

  // Before anything else, on any thread but the strand's. Errors: those of rpc::Listener::Open.
  StatusOr<net::HostPort> Listen(const net::HostPort& address);

  // The whole list of peers to be connected to: dials new ones, drops others.
  void SetDialed(const std::vector<handoff::PeerInfo>& peers);

  // Dropped when that peer is not connected.
  void Send(handoff::NodeId to, const handoff::Message& message);
  // Closes; `lost` follows, and a dialed peer is dialed again.
  void Drop(handoff::NodeId peer, Status reason);

  // Takes and dials nothing more, closes all; calls `done` when the last has ended. `lost` is
  // called for each.
  void CloseAll(net::Closure done);

  // Empty when it is not connected.
  std::string_view NameOf(handoff::NodeId peer) const;
  std::size_t num_connected() const { return by_node_.size(); }

 private:
  struct Peer;
  struct Dialed;
  using PeerPtr = std::shared_ptr<Peer>;  // shared with its connection's handlers

  StatusOr<net::HostPort> ListenHere(const net::HostPort& address);
  void Start(rpc::ConnectionPtr connection, const std::string& dialed_name);
  void OnHello(const PeerPtr& peer, const handoff::Hello& hello);
  void Join(const PeerPtr& peer);
  void OnClosed(const PeerPtr& peer, const Status& reason);
  void Forget(Peer& peer);
  void Dial(const std::string& name);
  void DialLater(Dialed& dialed);
  PeerPtr FindByName(const std::string& name) const;

  net::IoThreads& io_;
  const net::Strand strand_;
  const rpc::Options options_;
  handoff::Hello own_;
  const Events events_;
  std::unique_ptr<rpc::Listener> listener_;
  handoff::NodeDirectory directory_;
  std::map<handoff::NodeId, PeerPtr> by_node_;  // joined
  std::vector<PeerPtr> open_;                   // joined or not
  std::map<std::string, std::unique_ptr<Dialed>> dialed_;
  bool closing_ = false;
  net::Closure closed_;
};

}  // namespace tandem::worker
