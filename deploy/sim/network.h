// The network between simulated processes: connections, their order and loss, partitions, slow
// links.
//
// As TCP: packets of one connection arrive in order or not at all; nothing orders different ones. A
// partition holds packets back; those of a connection that is still open pass when it heals.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/units.h"
#include "common/handoff/ids.h"
#include "common/handoff/messages.h"
#include "deploy/sim/world.h"

namespace tandem::sim {

class Process;

// Message latency: `latency` plus up to `jitter`, in order on one connection, in any order between
// different ones. Bulk bytes of one pair of hosts follow one another at `bytes_per_second`.
struct LinkModel {
  Duration latency = std::chrono::microseconds(50);
  Duration jitter = std::chrono::microseconds(400);
  double bytes_per_second = 1e9;
};

struct Packet {
  enum class Kind : std::uint8_t { kHello, kMessage, kEnd };
  Kind kind = Kind::kMessage;
  handoff::Message message;
};

struct Connection {
  struct Side {
    enum class State : std::uint8_t { kHello, kDeciding, kOpen, kClosed };
    Process* process = nullptr;
    State state = State::kHello;
    bool joined = false;
    handoff::NodeId peer{0};    // as `process` numbers it
    handoff::Hello peer_hello;  // once it came
    Time opened{};              // by the clock of `process`
    Time last_heard{};
    std::deque<Packet> unread;  // while deciding
    // Of packets on their way to this side:
    Time arrival{};           // of the last
    bool lost = false;        // they never arrive, but for the end
    std::deque<Packet> held;  // a partition keeps them
  };
  std::array<Side, 2> sides;  // [0] dialed
};

class Network {
 public:
  Network(World& world, const LinkModel& link) : world_(world), link_(link) {}

  // The number of a host, by the name of its one process.
  std::int32_t HostOf(const std::string& name);
  // The process that answers dials at its name.
  void Listen(Process& process);
  void StopListening(const Process& process);
  Process* Find(const std::string& name) const;

  // `done` runs in `from`: with the connection, or with nullptr.
  void Dial(Process& from, const std::string& to, std::function<void(Connection*)> done);
  void Send(Connection& connection, int to_side, Packet packet);
  // Its process has closed this side. `abrupt`: what was on its way to the other side may be lost.
  void Close(Connection& connection, int side, bool abrupt);
  // When `bytes` handed over now are all at the other host.
  Time BulkArrival(std::int32_t from, std::int32_t to, ByteCount bytes);

  bool Blocked(std::int32_t a, std::int32_t b) const { return PairOf(a, b).blocks > 0; }
  bool Slow(std::int32_t a, std::int32_t b) const {
    const Pair& pair = PairOf(a, b);
    return pair.slowness > 1 || pair.lag[0] > 1 || pair.lag[1] > 1;
  }
  void Block(std::int32_t a, std::int32_t b) { ++PairOf(a, b).blocks; }
  void Unblock(std::int32_t a, std::int32_t b);
  void SetSlowness(std::int32_t a, std::int32_t b, std::int32_t times) {
    PairOf(a, b).slowness = times;
  }
  // Of messages from one to the other.
  void SetLag(std::int32_t from, std::int32_t to, std::int32_t times) {
    PairOf(from, to).lag[from < to ? 0 : 1] = times;
  }
  // Dials between them fail at once.
  bool Refuses(std::int32_t a, std::int32_t b) const { return PairOf(a, b).refusals > 0; }
  void Refuse(std::int32_t a, std::int32_t b) { ++PairOf(a, b).refusals; }
  void StopRefusing(std::int32_t a, std::int32_t b) { --PairOf(a, b).refusals; }
  // Resets the pair's connections; what is in flight is lost both ways.
  void Cut(std::int32_t a, std::int32_t b);

 private:
  static constexpr std::size_t kHostsMax = 24;
  struct Pair {
    std::int32_t blocks = 0;
    std::int32_t refusals = 0;
    std::int32_t slowness = 1;
    std::array<std::int32_t, 2> lag = {1, 1};  // [0] from the lower host to the higher
    Time bulk{};
  };
  Pair& PairOf(std::int32_t a, std::int32_t b) {
    return pairs_[static_cast<std::size_t>(std::min(a, b)) * kHostsMax +
                  static_cast<std::size_t>(std::max(a, b))];
  }
  const Pair& PairOf(std::int32_t a, std::int32_t b) const {
    return const_cast<Network*>(this)->PairOf(a, b);
  }
  Duration Latency(const Pair& pair) {
    return (link_.latency + world_.Jitter(link_.jitter)) * pair.slowness;
  }
  void Arrive(Connection& connection, int side, Packet packet);
  void HandOver(Connection& connection, int side, Packet packet);

  World& world_;
  const LinkModel link_;
  std::map<std::string, std::int32_t> hosts_;
  std::vector<Process*> listening_;  // [hosts]
  std::array<Pair, kHostsMax * kHostsMax> pairs_{};
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace tandem::sim
