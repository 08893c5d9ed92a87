// A simulated prefill node: PrefillCore, its arena, a model of the engine and of the pushes.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "deploy/sim/arena.h"
#include "deploy/sim/process.h"
#include "deploy/sim/pusher.h"
#include "prefill_node/core/prefill_core.h"

namespace tandem::sim {

struct PrefillTiming {
  Duration step_fixed = std::chrono::microseconds(500);
  Duration step_per_token = std::chrono::microseconds(10);
};

class PrefillProcess final : public Process {
 public:
  PrefillProcess(World& world, Network& network, const prefill_node::PrefillConfig& config,
                 const PrefillTiming& timing);

  void BeginDrain(Duration budget) override;
  void FailPuts(std::int32_t count) { pusher_.FailPuts(count); }
  void CorruptPuts(std::int32_t count) { pusher_.CorruptPuts(count); }

  const prefill_node::PrefillConfig& config() const { return config_; }
  prefill_node::PrefillCore& core() { return core_; }
  void CheckAfterEvent() override;
  std::string LeftInBooks() const override;

 private:
  handoff::Hello MakeHello() const override;
  void Connected(handoff::NodeId peer, const handoff::Hello& hello, Process& process) override;
  void Lost(handoff::NodeId peer, handoff::Role role, handoff::Loss loss) override;
  void Received(handoff::NodeId from, handoff::Message message) override;
  handoff::Heartbeat MakeHeartbeat(handoff::NodeId to) override;
  void Died() override { pusher_.Die(); }
  Time NextDeadline() const override;
  void OnTime() override;

  Pusher::Events PusherEvents();
  // Gives the core an event and does what it asks for.
  template <typename Event>
  void Do(Event&& event) {
    prefill_node::Actions out;
    event(out);
    Act(out);
  }
  void Act(prefill_node::Actions& actions);
  void FollowRules(const prefill_node::Action& action);
  void RunStep(const prefill_node::StartStep& action);
  void FinishStep(const prefill_node::StartStep& action, Duration took);
  void ComputeLayer(const sequence::Batch& batch, std::int32_t layer);
  std::vector<sequence::SampledToken> Sample(const sequence::Batch& batch);

  const prefill_node::PrefillConfig config_;
  const PrefillTiming timing_;
  prefill_node::PrefillCore core_;
  Arena arena_;
  Pusher pusher_;
  bool exiting_ = false;
  std::set<handoff::PlacementKey> refused_;  // placements, by the router
  std::size_t num_sinks_ = 0;                // ever connected
};

}  // namespace tandem::sim
