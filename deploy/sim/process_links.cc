// Process: its connections, from dial to end.
#include <fmt/format.h>

#include <algorithm>

#include "deploy/sim/process.h"
#include "deploy/sim/trace.h"

namespace tandem::sim {
namespace {

using handoff::Loss;
using handoff::NodeId;
using State = Connection::Side::State;

constexpr Duration kPingLimit = std::chrono::milliseconds(500);

}  // namespace

// --- dialing

void Process::SetDialed(const std::vector<std::pair<std::string, handoff::Incarnation>>& peers) {
  for (auto it = dialed_.begin(); it != dialed_.end();) {
    const bool kept = std::any_of(peers.begin(), peers.end(),
                                  [&](const auto& peer) { return peer.first == it->first; });
    if (kept) {
      ++it;
      continue;
    }
    Connection* connection = it->second.connection;
    it = dialed_.erase(it);
    if (connection != nullptr) CloseOwn({connection, 0}, Loss::kClosed, false);
  }
  for (const auto& [name, incarnation] : peers) {
    auto [it, is_new] = dialed_.try_emplace(name);
    const bool changed = it->second.incarnation != incarnation;
    it->second.incarnation = incarnation;
    if (changed) it->second.backoff = handoff::kDialBackoffMin;
    if ((is_new || changed) && !it->second.under_way) Dial(name);
  }
}

void Process::Dial(const std::string& name) {
  auto it = dialed_.find(name);
  if (it == dialed_.end() || it->second.under_way) return;
  it->second.under_way = true;
  ++it->second.try_number;
  network_.Dial(*this, name, [this, name](Connection* connection) {
    auto found = dialed_.find(name);
    if (connection == nullptr) {
      if (found == dialed_.end()) return;
      found->second.under_way = false;
      DialLater(name);
      return;
    }
    if (found == dialed_.end() || found->second.connection != nullptr) {
      network_.Close(*connection, 0, false);  // no longer wanted
      return;
    }
    found->second.connection = connection;
    connection->sides[0].opened = connection->sides[0].last_heard = now();
    open_.push_back({connection, 0});
    network_.Send(*connection, 1, {Packet::Kind::kHello, MakeHello()});
  });
}

void Process::DialLater(const std::string& name) {
  Dialed& dialed = dialed_.at(name);
  After(dialed.backoff, [this, name, number = dialed.try_number] {
    auto it = dialed_.find(name);
    if (it != dialed_.end() && it->second.try_number == number) Dial(name);
  });
  dialed.backoff = std::min(dialed.backoff * 2, handoff::kDialBackoffMax);
}

void Process::OnDialed(Connection& connection) {
  Connection::Side& mine = connection.sides[1];
  if (mine.state == State::kClosed) return;
  mine.opened = mine.last_heard = now();
  open_.push_back({&connection, 1});
}

// --- packets

void Process::Send(NodeId to, handoff::Message message) {
  auto it = joined_.find(to);
  if (it == joined_.end()) return;
  network_.Send(*it->second.connection, 1 - it->second.side,
                {Packet::Kind::kMessage, std::move(message)});
}

void Process::OnPacket(Connection& connection, int side, Packet packet) {
  const Ref ref{&connection, side};
  Connection::Side& mine = ref.mine();
  if (mine.state == State::kClosed) return;
  mine.last_heard = now();
  if (mine.state == State::kDeciding) {
    mine.unread.push_back(std::move(packet));
    return;
  }
  world_.Trace([&] {
    return fmt::format("{} → {}: {}", ref.peer().process->name(), name_,
                       packet.kind == Packet::Kind::kEnd ? "end" : Describe(packet.message));
  });
  switch (packet.kind) {
    case Packet::Kind::kEnd:
      return OnClosed(ref, Loss::kDied);
    case Packet::Kind::kHello:
      return OnHello(ref, std::get<handoff::Hello>(packet.message));
    case Packet::Kind::kMessage:
      return Received(mine.peer, std::move(packet.message));
  }
}

// --- hello

const Process::Ref* Process::FindByName(const std::string& name) const {
  for (const auto& [node, ref] : joined_) {
    if (ref.mine().peer_hello.name == name) return &ref;
  }
  return nullptr;
}

void Process::OnHello(Ref ref, const handoff::Hello& hello) {
  ref.mine().peer_hello = hello;
  const Ref* known = FindByName(hello.name);
  if (known == nullptr) return Join(ref);
  const Ref old = *known;
  if (old.mine().peer_hello.incarnation == hello.incarnation) {
    CloseOwn(old, Loss::kClosed, false);
    return Join(ref);
  }
  ref.mine().state = State::kDeciding;
  Decide(ref, old, 2);
}

// Another life under a known name: the old one is pinged.
void Process::Decide(Ref ref, Ref old, int pings_left) {
  const Duration wait = pings_left == 2 ? std::chrono::milliseconds(1) : kPingLimit;
  After(wait, [this, ref, old, pings_left] {
    if (ref.mine().state != State::kDeciding) return;
    const Process& peer = *old.peer().process;
    const bool answers = old.mine().joined && old.peer().state == State::kOpen && peer.alive() &&
                         !peer.stopped && !network_.Blocked(host_, peer.host());
    if (answers) return CloseOwn(ref, Loss::kClosed, false);  // two nodes with one name
    if (pings_left == 2 && old.mine().joined) return Decide(ref, old, 1);
    if (old.mine().joined) CloseOwn(old, Loss::kDied, false);
    if (FindByName(ref.mine().peer_hello.name) != nullptr) {
      return CloseOwn(ref, Loss::kClosed, false);
    }
    Join(ref);
  });
}

void Process::Join(Ref ref) {
  Connection::Side& mine = ref.mine();
  mine.state = State::kOpen;
  mine.joined = true;
  mine.last_heard = now();
  mine.peer = directory_.IdOf(mine.peer_hello.name, mine.peer_hello.incarnation);
  joined_[mine.peer] = ref;
  if (ref.side == 1) network_.Send(*ref.connection, 0, {Packet::Kind::kHello, MakeHello()});
  if (auto it = dialed_.find(mine.peer_hello.name); ref.side == 0 && it != dialed_.end()) {
    it->second.backoff = handoff::kDialBackoffMin;
  }
  Connected(mine.peer, mine.peer_hello, *ref.peer().process);
  while (!mine.unread.empty() && mine.state == State::kOpen) {
    Packet packet = std::move(mine.unread.front());
    mine.unread.pop_front();
    OnPacket(*ref.connection, ref.side, std::move(packet));
  }
}

bool Process::IsConnectedTo(const Process& peer) const {
  return std::any_of(joined_.begin(), joined_.end(),
                     [&](const auto& entry) { return entry.second.peer().process == &peer; });
}

// --- ends

void Process::Forget(Ref ref, Loss loss) {
  Connection::Side& mine = ref.mine();
  if (!std::exchange(mine.joined, false)) return;
  joined_.erase(mine.peer);
  Lost(mine.peer, mine.peer_hello.role, loss);
}

void Process::OnClosed(Ref ref, Loss loss) {
  ref.mine().state = State::kClosed;
  Forget(ref, loss);
  if (ref.side == 1) return;
  for (auto& [name, dialed] : dialed_) {
    if (dialed.connection != ref.connection) continue;
    dialed.connection = nullptr;
    dialed.under_way = false;
    DialLater(name);
    return;
  }
}

void Process::CloseOwn(Ref ref, Loss loss, bool abrupt) {
  if (ref.mine().state == State::kClosed) return;
  world_.Trace([&] {
    return fmt::format("{} closes its connection to {}", name_, ref.peer().process->name());
  });
  network_.Close(*ref.connection, ref.side, abrupt);
  OnClosed(ref, loss);
}

}  // namespace tandem::sim
