#include "common/worker/peer_table.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "common/handoff/events.h"
#include "common/log/log.h"

namespace tandem::worker {
namespace {

constexpr Duration kPingLimit = std::chrono::milliseconds(500);

std::string_view RoleName(handoff::Role role) {
  switch (role) {
    case handoff::Role::kRouter:
      return "router";
    case handoff::Role::kPrefill:
      return "prefill";
    case handoff::Role::kDecode:
      return "decode";
  }
  return "unknown";
}

}  // namespace

struct PeerTable::Peer {
  rpc::ConnectionPtr connection;
  std::string dialed_name;  // empty: it dialed us
  handoff::Hello hello;
  handoff::NodeId node{0};
  bool joined = false;
};

struct PeerTable::Dialed {
  explicit Dialed(const net::Strand& strand) : retry(strand) {}
  handoff::PeerInfo peer;
  net::Timer retry;
  Duration backoff = handoff::kDialBackoffMin;
  bool under_way = false;  // a dial or a connection
  bool reported = false;   // the present run of failures was logged
};

PeerTable::PeerTable(net::IoThreads& io, const net::Strand& strand, const rpc::Options& options,
                     handoff::Hello own, Events events)
    : io_(io),
      strand_(strand),
      options_(options),
      own_(std::move(own)),
      events_(std::move(events)) {}

PeerTable::~PeerTable() = default;

// Whoever dials at once (a restarted node's peers do) must hear the whole of `own_`: connections
// are handled on the strand, so only when this is done.
StatusOr<net::HostPort> PeerTable::Listen(const net::HostPort& address) {
  std::promise<StatusOr<net::HostPort>> done;
  strand_.Post([&] { done.set_value(ListenHere(address)); });
  return done.get_future().get();
}

StatusOr<net::HostPort> PeerTable::ListenHere(const net::HostPort& address) {
  TANDEM_ASSIGN_OR_RETURN(
      listener_, rpc::Listener::Open(io_, strand_, address, options_, [this](rpc::ConnectionPtr c) {
        if (closing_) {
          c->Close(Cancelled("stopping"));
        } else {
          Start(std::move(c), "");
        }
      }));
  own_.rpc_address = listener_->address().ToString();
  return listener_->address();
}

void PeerTable::Start(rpc::ConnectionPtr connection, const std::string& dialed_name) {
  auto peer = std::make_shared<Peer>();
  peer->connection = std::move(connection);
  peer->dialed_name = dialed_name;
  open_.push_back(peer);
  rpc::Connection::Handlers handlers;
  handlers.on_hello = [this, peer](const handoff::Hello& hello) { OnHello(peer, hello); };
  handlers.on_message = [this, peer](handoff::Message message) {
    if (peer->joined) events_.message(peer->node, std::move(message));
  };
  handlers.on_closed = [this, peer](const Status& reason) { OnClosed(peer, reason); };
  handlers.heartbeat = [this, peer] {
    return peer->joined ? events_.heartbeat(peer->node) : handoff::Heartbeat{};
  };
  peer->connection->Start(own_, std::move(handlers));
}

PeerTable::PeerPtr PeerTable::FindByName(const std::string& name) const {
  for (const auto& [node, peer] : by_node_) {
    if (peer->hello.name == name) return peer;
  }
  return nullptr;
}

void PeerTable::OnHello(const PeerPtr& peer, const handoff::Hello& hello) {
  if (closing_) return peer->connection->Refuse("state", "this node is stopping");
  if (hello.name.empty()) return peer->connection->Refuse("name", "is empty");
  if (auto misfit = events_.check(hello)) {
    log::Warning("peer.refused", "name={} role={} address={} field={} reason=\"{}\"", hello.name,
                 RoleName(hello.role), peer->connection->remote_address(), misfit->field,
                 misfit->reason);
    return peer->connection->Refuse(std::move(misfit->field), std::move(misfit->reason));
  }
  peer->hello = hello;
  const PeerPtr old = FindByName(hello.name);
  if (old == nullptr) return Join(peer);
  if (old->hello.incarnation == hello.incarnation) {
    Forget(*old);
    old->connection->Close(Cancelled("replaced by a newer connection"));
    return Join(peer);
  }
  old->connection->Ping(kPingLimit, [this, peer, old](bool answered) {
    if (std::find(open_.begin(), open_.end(), peer) == open_.end()) return;  // it has left
    if (closing_) return peer->connection->Refuse("state", "this node is stopping");
    if (answered && old->joined) {
      return peer->connection->Refuse("name", fmt::format("{} is connected under this name",
                                                          old->connection->remote_address()));
    }
    Forget(*old);
    old->connection->Close(Unavailable("no answer to a ping"));
    // A third may have come in the meantime.
    if (FindByName(peer->hello.name) != nullptr) {
      return peer->connection->Refuse("name", "another node has just connected under this name");
    }
    Join(peer);
  });
}

void PeerTable::Join(const PeerPtr& peer) {
  peer->node = directory_.IdOf(peer->hello.name, peer->hello.incarnation);
  peer->joined = true;
  by_node_[peer->node] = peer;
  if (auto it = dialed_.find(peer->dialed_name); it != dialed_.end()) {
    it->second->backoff = handoff::kDialBackoffMin;
    it->second->reported = false;
  }
  log::Info("peer.connected", "name={} role={} address={} numerics={}", peer->hello.name,
            RoleName(peer->hello.role), peer->connection->remote_address(), peer->hello.numerics);
  peer->connection->Accept();
  events_.connected(peer->node, peer->hello);
}

// Ends what a joined peer means, not its connection.
void PeerTable::Forget(Peer& peer) {
  if (!std::exchange(peer.joined, false)) return;
  by_node_.erase(peer.node);
  events_.lost(peer.node, peer.hello.role);
}

void PeerTable::OnClosed(const PeerPtr& peer, const Status& reason) {
  std::erase(open_, peer);
  auto dialed = dialed_.find(peer->dialed_name);
  if (peer->joined) {
    log::Info("peer.lost", "name={} reason=\"{}\"", peer->hello.name, FromAbsl(reason.message()));
  } else if (!reason.ok() && (dialed == dialed_.end() || !dialed->second->reported)) {
    log::Warning("peer.not_connected", "address={} reason=\"{}\"",
                 peer->connection->remote_address(), FromAbsl(reason.message()));
    if (dialed != dialed_.end()) dialed->second->reported = true;
  }
  Forget(*peer);
  if (dialed != dialed_.end()) {
    dialed->second->under_way = false;
    DialLater(*dialed->second);
  }
  if (closing_ && open_.empty() && closed_) std::exchange(closed_, net::Closure())();
}

// --- dialing

void PeerTable::SetDialed(const std::vector<handoff::PeerInfo>& peers) {
  if (closing_) return;
  for (auto it = dialed_.begin(); it != dialed_.end();) {
    const bool kept = std::any_of(peers.begin(), peers.end(), [&](const handoff::PeerInfo& peer) {
      return peer.name == it->first && peer.rpc_address == it->second->peer.rpc_address;
    });
    if (kept) {
      ++it;
      continue;
    }
    for (const PeerPtr& peer : open_) {
      if (peer->dialed_name == it->first) peer->connection->Close(Cancelled("no longer wanted"));
    }
    it = dialed_.erase(it);
  }
  for (const handoff::PeerInfo& peer : peers) {
    auto [it, is_new] = dialed_.try_emplace(peer.name);
    if (is_new) it->second = std::make_unique<Dialed>(strand_);
    const bool changed = it->second->peer.incarnation != peer.incarnation;
    it->second->peer = peer;
    if (changed) it->second->backoff = handoff::kDialBackoffMin;
    if ((is_new || changed) && !it->second->under_way) Dial(peer.name);
  }
}

void PeerTable::Dial(const std::string& name) {
  auto it = dialed_.find(name);
  if (closing_ || it == dialed_.end() || it->second->under_way) return;
  Dialed& dialed = *it->second;
  dialed.retry.Cancel();
  const StatusOr<net::HostPort> address = net::ParseHostPort(dialed.peer.rpc_address);
  if (!address.ok()) {
    log::Error("peer.bad_address", "name={} reason=\"{}\"", name,
               FromAbsl(address.status().message()));
    return;
  }
  dialed.under_way = true;
  rpc::Dial(io_, strand_, *address, options_, [this, name](StatusOr<rpc::ConnectionPtr> result) {
    auto found = dialed_.find(name);
    if (closing_ || found == dialed_.end()) {
      if (result.ok()) (*result)->Close(Cancelled("no longer wanted"));
      return;
    }
    if (result.ok()) return Start(*std::move(result), name);
    Dialed& target = *found->second;
    if (!std::exchange(target.reported, true)) {
      log::Warning("peer.unreachable", "name={} reason=\"{}\"", name,
                   FromAbsl(result.status().message()));
    }
    target.under_way = false;
    DialLater(target);
  });
}

void PeerTable::DialLater(Dialed& dialed) {
  if (closing_) return;
  dialed.retry.Set(SteadyNow() + dialed.backoff, [this, name = dialed.peer.name] { Dial(name); });
  dialed.backoff = std::min(dialed.backoff * 2, handoff::kDialBackoffMax);
}

// --- use

void PeerTable::Send(handoff::NodeId to, const handoff::Message& message) {
  if (auto it = by_node_.find(to); it != by_node_.end()) it->second->connection->Send(message);
}

std::string_view PeerTable::NameOf(handoff::NodeId peer) const {
  auto it = by_node_.find(peer);
  return it == by_node_.end() ? std::string_view() : it->second->hello.name;
}

void PeerTable::Drop(handoff::NodeId peer, Status reason) {
  if (auto it = by_node_.find(peer); it != by_node_.end()) {
    it->second->connection->Close(std::move(reason));
  }
}

void PeerTable::CloseAll(net::Closure done) {
  closing_ = true;
  closed_ = std::move(done);
  listener_.reset();
  dialed_.clear();
  for (const PeerPtr& peer : open_) peer->connection->Close(Cancelled("this node is stopping"));
  if (open_.empty()) std::exchange(closed_, net::Closure())();
}

}  // namespace tandem::worker
