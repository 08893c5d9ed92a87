// The clients of one history: a drawn set of requests, what each should receive, and what each did.
// Outlives the router's lives; a client whose router ends sees its stream end.
//
// Compares every delivered token with the reference stream, position by position.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/hash128.h"
#include "deploy/sim/simulation.h"
#include "deploy/sim/world.h"
#include "router/core/router_core.h"

namespace tandem::sim {

class RouterProcess;

class Workload {
 public:
  struct Client {
    router::RequestSpec spec;  // without id and deadline
    Duration budget{0};        // to its deadline
    bool short_deadline = false;
    Time arrives{};
    Time due{};                // its deadline
    TokenIds expected;         // the whole stream
    std::uint64_t number = 0;  // at the router; 0: not submitted
    bool ended = false;
    std::int32_t received = 0;
    std::int32_t stop_at = -1;  // a stop string ends with this position
    bool leaves = false;        // after a while, by itself
    bool gone = false;          // cancelled by the client
    bool stopped = false;
    bool slow = false;
    Time paused_until{};
    std::int32_t unread = 0;  // delivered, not consumed
    Time last_heard{};        // its last position
    Duration computing{0};    // of its prompt, since then
    StreamPause pause;        // the longest beyond it all
    handoff::PlacementKey voice;
  };
  // What the cluster around it knows.
  struct Surroundings {
    // Whether this end is in order.
    std::function<bool(const Client&, const Status&)> excuse;
    // Since when a pair works and nothing goes wrong; kNever: not now.
    std::function<Time()> calm_since;
    // Of this span, how long no pair worked.
    std::function<Duration(Time from, Time to)> ill_within;
  };

  Workload(World& world, const SimOptions& options, const Hash128& model_instance,
           Surroundings surroundings);

  // Draws the requests and schedules them from now on.
  void Start();
  // Requests go to this one from now on; nullptr: there is none.
  void SetRouter(RouterProcess* router) { router_ = router; }
  // All streams of the present router end; `for_good`: and nobody is asked any more.
  void RouterGone(bool for_good);
  bool finished() const { return left_ == 0; }
  // The first client that has not ended, for a report.
  std::string Unfinished() const;

  // A prefill node has computed its prompt for so long, for one more attempt.
  void OnComputed(std::uint64_t number, Duration took);
  // Pauses count from the first fault on.
  void FaultBegins() { disturbed_ = true; }
  void OnDeliver(const router::Deliver& action, const handoff::PlacementKey& voice);
  void OnFinished(const router::Finished& action);
  // Faults; `index` from 1 in order of arrival. False: there is no such running request.
  bool Leave(std::int32_t index);
  bool Pause(std::int32_t index, Time until);

  std::int32_t done() const { return done_; }
  std::int32_t cancelled() const { return cancelled_; }
  std::int32_t failed() const { return failed_; }
  std::int32_t cut() const { return cut_; }
  // Of each client that reads and that a fault has made wait, the longest one.
  std::vector<StreamPause> Pauses() const;
  // The longest wait of any for its next position while all was calm.
  Duration calm_wait_max() const { return calm_wait_max_; }

 private:
  Client Draw(std::int32_t index);
  void Submit(Client& client);
  void Consume(Client& client);
  void Leave(Client& client);
  void End(Client& client);
  void Cut(Client& client);
  // A client that reads hears something: how long did that take?
  void NoteWait(Client& client);
  Client* Find(std::uint64_t number);
  void Broken(const Client& client, const std::string& what);
  bool Percent(std::int32_t percent) {
    return random_.Below(100) < static_cast<std::uint64_t>(percent);
  }

  World& world_;
  const SimOptions& options_;
  const Hash128 model_instance_;
  const Hash128 root_;
  const Surroundings surroundings_;
  SplitMix64 random_;  // of its own: the same requests under every fault plan
  RouterProcess* router_ = nullptr;
  std::vector<TokenIds> prefixes_;  // that prompts share
  std::vector<Client> clients_;
  std::map<std::uint64_t, Client*> by_number_;  // submitted, not ended
  std::uint64_t last_number_ = 0;
  std::int32_t left_ = 0;
  std::int32_t done_ = 0;
  std::int32_t cancelled_ = 0;
  std::int32_t failed_ = 0;
  std::int32_t cut_ = 0;
  bool disturbed_ = false;
  Duration calm_wait_max_{0};
};

}  // namespace tandem::sim
