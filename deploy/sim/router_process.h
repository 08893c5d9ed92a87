// A simulated router: RouterCore, its connections to the nodes it was told of, and the clients of
// the workload.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "deploy/sim/process.h"
#include "deploy/sim/router_rules.h"
#include "deploy/sim/workload.h"
#include "router/core/router_core.h"

namespace tandem::sim {

class RouterProcess final : public Process {
 public:
  RouterProcess(World& world, Network& network, const router::RouterConfig& config,
                Workload& workload);

  // Keeps connections to these nodes.
  void SetNodes(const std::vector<std::string>& names);
  // Asks the node of this name to drain; false: it is not connected.
  bool Drain(const std::string& name);

  // From clients. `refused` is called instead when the router does not take it.
  void Submit(std::uint64_t number, Duration budget, router::RequestSpec spec,
              const std::function<void(Status)>& refused);
  void ClientGone(std::uint64_t number);
  void StopMatched(std::uint64_t number, Position position);
  void ClientConsumed(std::uint64_t number, std::int32_t positions);

  router::RouterCore& core() { return core_; }
  void CheckAfterEvent() override;
  std::string LeftInBooks() const override;

 private:
  handoff::Hello MakeHello() const override;
  void Connected(handoff::NodeId peer, const handoff::Hello& hello, Process& process) override;
  void Lost(handoff::NodeId peer, handoff::Role role, handoff::Loss loss) override;
  void Received(handoff::NodeId from, handoff::Message message) override;
  handoff::Heartbeat MakeHeartbeat(handoff::NodeId) override { return {}; }
  Time NextDeadline() const override;
  void OnTime() override;

  // Gives the core an event and does what it asks for.
  template <typename Event>
  void Do(Event&& event) {
    router::Actions out;
    event(out);
    Act(out);
  }
  void Act(router::Actions& actions);
  void FollowRules(const router::Action& action);
  handoff::RequestId IdOf(std::uint64_t number) const { return {config_.incarnation, number}; }

  const router::RouterConfig config_;
  Workload& workload_;
  router::RouterCore core_;
  std::map<std::string, handoff::NodeId> nodes_;  // connected
  handoff::PlacementKey voice_;                   // of the message under way
  RouterRules rules_;
  bool stopping_ = false;  // the event under way is a stop string
};

}  // namespace tandem::sim
