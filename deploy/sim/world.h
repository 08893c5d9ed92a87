// What the simulated processes share: clock, random numbers, network, and the first broken rule.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "common/base/random.h"
#include "common/base/time.h"
#include "common/handoff/events.h"
#include "common/handoff/messages.h"
#include "deploy/sim/event_loop.h"

namespace tandem::sim {

// Message latency: `latency` plus up to `jitter`, in order on one connection, in any order between
// different ones. Bulk bytes of one pair of processes follow one another at `bytes_per_second`.
struct LinkModel {
  Duration latency = std::chrono::microseconds(50);
  Duration jitter = std::chrono::microseconds(400);
  double bytes_per_second = 1e9;
};

class World {
 public:
  using Receiver = std::function<void(handoff::NodeId from, handoff::Message message)>;

  World(std::uint64_t seed, const LinkModel& link) : random(seed), link_(link) {}

  void Join(handoff::NodeId id, Receiver receiver) { receivers_[id] = std::move(receiver); }
  void Send(handoff::NodeId from, handoff::NodeId to, handoff::Message message) {
    const Time at = Arrival(control_[{from, to}], Duration::zero());
    loop.At(at, [this, from, to, message = std::move(message)]() mutable {
      receivers_.at(to)(from, std::move(message));
    });
  }
  // When `bytes` handed over now are all at the other side.
  Time BulkArrival(handoff::NodeId from, handoff::NodeId to, ByteCount bytes) {
    const double seconds = static_cast<double>(bytes.value()) / link_.bytes_per_second;
    return Arrival(bulk_[{from, to}],
                   std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
  }
  Duration Jitter(Duration most) {
    return Duration(
        static_cast<std::int64_t>(random.Below(static_cast<std::uint64_t>(most.count()) + 1)));
  }

  // The first broken rule ends the run.
  void Violate(std::string what) {
    if (violation.empty()) violation = std::move(what);
  }

  EventLoop loop;
  SplitMix64 random;
  std::string violation;

 private:
  Time Arrival(Time& last, Duration extra) {
    last = std::max(last, loop.now() + link_.latency + Jitter(link_.jitter)) + extra;
    return last;
  }
  const LinkModel link_;
  std::map<handoff::NodeId, Receiver> receivers_;
  std::map<std::pair<handoff::NodeId, handoff::NodeId>, Time> control_, bulk_;
};

}  // namespace tandem::sim
