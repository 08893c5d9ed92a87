// All processes of one history, its network and its clients; starts them, does to them what the
// fault plan says, checks what must hold, and knows what the faults excuse.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "deploy/sim/decode_process.h"
#include "deploy/sim/network.h"
#include "deploy/sim/prefill_process.h"
#include "deploy/sim/router_process.h"
#include "deploy/sim/simulation.h"
#include "deploy/sim/workload.h"
#include "deploy/sim/world.h"

namespace tandem::sim {

class Cluster {
 public:
  explicit Cluster(const SimOptions& options);
  SimReport Run();

 private:
  // One name in the cluster, and the process that has it now.
  struct Slot {
    handoff::Role role = handoff::Role::kRouter;
    std::string name;
    Process* current = nullptr;  // null: down
    bool removed = false;
    bool draining = false;
    Duration restart_after{0};  // when it ends next; zero: never
  };

  // cluster.cc
  Slot& AddSlot(handoff::Role role, std::int32_t index);
  void StartLife(Slot& slot);
  void Ended(Slot& slot, bool killed);
  Slot* FindSlot(const std::string& name);
  void SetRouterNodes();
  bool RunUntilFinished();
  void Settle();
  void CheckTouched();
  std::string LeftInBooks() const;
  SimReport Report();
  void AddWorker(Process& life, SimReport& report) const;

  // cluster_faults.cc
  void ScheduleFaults();
  void FireByEvents();
  void Fire(const Fault& fault);
  bool FireOnProcess(const Fault& fault, Slot& slot);
  bool FireOnPair(const Fault& fault);
  bool FireOnClient(const Fault& fault);
  void FireFor(Duration length, std::function<void()> end);
  std::int32_t LimitOf(FaultKind kind, const std::string& name, std::int32_t otherwise) const;
  std::int32_t CountIn(FaultKind kind) const;  // of the plan

  // cluster_health.cc: whether a request could have ended well.
  bool PairIsHealthy(const Slot& prefill, const Slot& decode);
  void UpdateHealth();
  void Disturbed();  // by a fault, or the end of one
  Time CalmSince() const;
  Duration IllWithin(Time from, Time to) const;
  bool Excuses(const Workload::Client& client, const Status& status);
  Duration LongestHealth(Time since);
  std::int32_t DeathsSince(Time time) const;

  const SimOptions options_;
  World world_;
  Network network_;
  Hash128 model_;
  kv::KvLayout layout_;
  Workload workload_;
  std::vector<std::unique_ptr<Slot>> slots_;     // [0] the router
  std::vector<std::unique_ptr<Process>> lives_;  // all that ever were
  std::uint64_t next_incarnation_ = 1000;
  std::uint64_t workload_starts_ = 0;  // at this event
  std::vector<Fault> by_events_;       // not yet fired, the next one last
  std::array<std::int32_t, kFaultKinds> fired_{};
  std::int32_t under_way_ = 0;  // faults that have not ended, restarts to come
  std::vector<Time> deaths_;    // of workers that were killed
  Time disturbed_at_{};
  Duration settled_after_{0};
  bool healthy_ = false;
  Time healthy_since_{};
  std::vector<std::pair<Time, Time>> health_;  // past spans
};

}  // namespace tandem::sim
