// A simulated prefill node: PrefillCore, its arena, a model of the engine and of the pushes.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "deploy/sim/arena.h"
#include "deploy/sim/decode_process.h"
#include "deploy/sim/world.h"
#include "prefill_node/core/prefill_core.h"

namespace tandem::sim {

struct PrefillTiming {
  Duration step_fixed = std::chrono::microseconds(500);
  Duration step_per_token = std::chrono::microseconds(10);
};

class PrefillProcess {
 public:
  PrefillProcess(World& world, handoff::NodeId id, const prefill_node::PrefillConfig& config,
                 const PrefillTiming& timing);

  handoff::Hello MakeHello() const;
  void ConnectRouter(handoff::NodeId router, const handoff::Hello& hello);
  // Where pushes to this sink land; connects both when the router's Peers name it.
  void Knows(DecodeProcess& sink) { sinks_by_name_[sink.config().name] = &sink; }
  void StartHeartbeats();

  const prefill_node::PrefillConfig& config() const { return config_; }
  prefill_node::PrefillCore& core() { return core_; }
  void CheckAfterEvent();
  void CheckBooks();

 private:
  // Gives the core an event and does what it asks for.
  void Do(const std::function<void(prefill_node::Actions&)>& event);
  void Act(prefill_node::Action& action);
  void Dial(const prefill_node::DialSinks& action);
  void RunStep(const prefill_node::StartStep& action);
  void ComputeLayer(const sequence::Batch& batch, std::int32_t layer);
  std::vector<sequence::SampledToken> Sample(const sequence::Batch& batch);
  void RunPush(const prefill_node::Push& action);
  void Broken(const std::string& what);
  DecodeProcess& SinkOf(handoff::NodeId id) { return *sinks_.at(id); }

  World& world_;
  const handoff::NodeId id_;
  const prefill_node::PrefillConfig config_;
  const PrefillTiming timing_;
  prefill_node::PrefillCore core_;
  Arena arena_;
  Time timer_ = kNever;
  std::map<std::string, DecodeProcess*> sinks_by_name_;
  std::map<handoff::NodeId, DecodeProcess*> sinks_;  // connected
  std::vector<handoff::NodeId> peers_;
  std::map<handoff::PlacementKey, std::int32_t> writing_;  // pushes under way
  std::set<handoff::PlacementKey> aborting_;
  std::map<std::pair<std::int32_t, kv::BlockId>, std::int32_t>
      readers_;  // pushes of (layer, block)
};

}  // namespace tandem::sim
