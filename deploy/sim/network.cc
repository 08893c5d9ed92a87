#include "deploy/sim/network.h"

#include <utility>

#include "common/base/check.h"
#include "deploy/sim/process.h"

namespace tandem::sim {
namespace {

constexpr Duration kConnectTimeout = std::chrono::seconds(1);

}  // namespace

std::int32_t Network::HostOf(const std::string& name) {
  const auto next = static_cast<std::int32_t>(hosts_.size());
  const auto [it, is_new] = hosts_.try_emplace(name, next);
  if (is_new) {
    TANDEM_CHECK(hosts_.size() <= kHostsMax);
    listening_.push_back(nullptr);
  }
  return it->second;
}

void Network::Listen(Process& process) {
  listening_[static_cast<std::size_t>(process.host())] = &process;
}

void Network::StopListening(const Process& process) {
  Process*& entry = listening_[static_cast<std::size_t>(process.host())];
  if (entry == &process) entry = nullptr;
}

Process* Network::Find(const std::string& name) const {
  auto it = hosts_.find(name);
  return it == hosts_.end() ? nullptr : listening_[static_cast<std::size_t>(it->second)];
}

void Network::Dial(Process& from, const std::string& to, std::function<void(Connection*)> done) {
  const std::int32_t host = HostOf(to);
  const Pair& pair = PairOf(from.host(), host);
  if (pair.blocks > 0) {
    from.After(kConnectTimeout, [done = std::move(done)] { done(nullptr); });
    return;
  }
  from.After(Latency(pair) * 2, [this, &from, host, done = std::move(done)] {
    Process* target = listening_[static_cast<std::size_t>(host)];
    if (target == nullptr || Blocked(from.host(), host) || Refuses(from.host(), host)) {
      return done(nullptr);
    }
    connections_.push_back(std::make_unique<Connection>());
    Connection& connection = *connections_.back();
    connection.sides[0].process = &from;
    connection.sides[1].process = target;
    world_.loop.Execute(*target, [target, &connection] { target->OnDialed(connection); });
    done(&connection);
  });
}

void Network::Send(Connection& connection, int to_side, Packet packet) {
  Connection::Side& to = connection.sides[static_cast<std::size_t>(to_side)];
  const Connection::Side& from = connection.sides[static_cast<std::size_t>(1 - to_side)];
  const Pair& pair = PairOf(from.process->host(), to.process->host());
  const std::int32_t lag = pair.lag[from.process->host() < to.process->host() ? 0 : 1];
  to.arrival = std::max(to.arrival, world_.loop.now() + Latency(pair) * lag);
  world_.loop.At(to.arrival, nullptr,
                 [this, &connection, to_side, packet = std::move(packet)]() mutable {
                   Arrive(connection, to_side, std::move(packet));
                 });
}

void Network::Arrive(Connection& connection, int side, Packet packet) {
  Connection::Side& to = connection.sides[static_cast<std::size_t>(side)];
  const Connection::Side& from = connection.sides[static_cast<std::size_t>(1 - side)];
  if (to.state == Connection::Side::State::kClosed) return;
  if (to.lost && packet.kind != Packet::Kind::kEnd) return;
  if (!to.held.empty() || Blocked(from.process->host(), to.process->host())) {
    to.held.push_back(std::move(packet));
    return;
  }
  HandOver(connection, side, std::move(packet));
}

void Network::HandOver(Connection& connection, int side, Packet packet) {
  Process& process = *connection.sides[static_cast<std::size_t>(side)].process;
  world_.loop.Execute(process, [&process, &connection, side, packet = std::move(packet)]() mutable {
    process.OnPacket(connection, side, std::move(packet));
  });
}

void Network::Close(Connection& connection, int side, bool abrupt) {
  connection.sides[static_cast<std::size_t>(side)].state = Connection::Side::State::kClosed;
  Connection::Side& other = connection.sides[static_cast<std::size_t>(1 - side)];
  if (other.state == Connection::Side::State::kClosed) return;
  if (abrupt && world_.Chance(2)) other.lost = true;
  Send(connection, 1 - side, {Packet::Kind::kEnd, {}});
}

Time Network::BulkArrival(std::int32_t from, std::int32_t to, ByteCount bytes) {
  Pair& pair = PairOf(from, to);
  const double seconds =
      static_cast<double>(bytes.value()) / link_.bytes_per_second * pair.slowness;
  pair.bulk = std::max(pair.bulk, world_.loop.now() + Latency(pair)) +
              std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  return pair.bulk;
}

// What was held arrives in one go; what comes meanwhile queues behind it.
void Network::Unblock(std::int32_t a, std::int32_t b) {
  Pair& pair = PairOf(a, b);
  if (--pair.blocks > 0) return;
  for (const auto& entry : connections_) {
    Connection* connection = entry.get();
    for (int side = 0; side < 2; ++side) {
      Connection::Side& to = connection->sides[static_cast<std::size_t>(side)];
      const std::int32_t from =
          connection->sides[static_cast<std::size_t>(1 - side)].process->host();
      if (to.held.empty() || &PairOf(from, to.process->host()) != &pair) continue;
      world_.loop.After(Latency(pair), [this, connection, side, from, &to] {
        if (Blocked(from, to.process->host())) return;  // again
        for (Packet& packet : std::exchange(to.held, {})) {
          if (to.state == Connection::Side::State::kClosed) return;
          if (to.lost && packet.kind != Packet::Kind::kEnd) continue;
          HandOver(*connection, side, std::move(packet));
        }
      });
    }
  }
}

void Network::Cut(std::int32_t a, std::int32_t b) {
  const Pair& pair = PairOf(a, b);
  for (const auto& connection : connections_) {
    auto& sides = connection->sides;
    if (&PairOf(sides[0].process->host(), sides[1].process->host()) != &pair) continue;
    for (int side = 0; side < 2; ++side) {
      Connection::Side& to = sides[static_cast<std::size_t>(side)];
      if (to.state == Connection::Side::State::kClosed) continue;
      to.lost = true;
      Send(*connection, side, {Packet::Kind::kEnd, {}});
    }
  }
}

}  // namespace tandem::sim
