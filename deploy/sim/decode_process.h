// A simulated decode node: DecodeCore, its arena, a model of the engine and of the landing zone.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "decode_node/core/decode_core.h"
#include "deploy/sim/arena.h"
#include "deploy/sim/world.h"

namespace tandem::sim {

// One (layer, range) of a placement, as it lies in the source when it is read.
struct DataPart {
  handoff::PlacementKey key;
  std::int32_t layer = 0;
  std::int32_t first_block = 0;
  std::vector<kv::BlockId> blocks;    // at the sink
  std::vector<std::uint64_t> states;  // [blocks * block_size]
};

struct DecodeTiming {
  Duration step_fixed = std::chrono::microseconds(300);
  Duration step_per_sequence = std::chrono::microseconds(20);
  Duration verify = std::chrono::microseconds(30);
};

class DecodeProcess {
 public:
  DecodeProcess(World& world, handoff::NodeId id, const decode_node::DecodeConfig& config,
                handoff::Proof proof, const DecodeTiming& timing);

  handoff::Hello MakeHello() const;
  void ConnectRouter(handoff::NodeId router, const handoff::Hello& hello);
  void ConnectSource(handoff::NodeId source, const handoff::Hello& hello);
  void StartHeartbeats();

  // One-sided writes: a write into these blocks is under way, and has ended.
  void WriteBegins(const handoff::PlacementKey& key, std::span<const kv::BlockId> blocks);
  void WriteEnds(const handoff::PlacementKey& key, std::span<const kv::BlockId> blocks);
  // The bytes are in memory (one-sided), or in a message that has come (kReceives).
  void Land(const DataPart& part);
  void DataMessage(DataPart part);

  const decode_node::DecodeConfig& config() const { return config_; }
  handoff::NodeId id() const { return id_; }
  handoff::Proof proof() const { return proof_; }
  decode_node::DecodeCore& core() { return core_; }
  void CheckAfterEvent();
  void CheckBooks();

 private:
  // Gives the core an event and does what it asks for.
  void Do(const std::function<void(decode_node::Actions&)>& event);
  void Act(decode_node::Action& action);
  void RunStep(const decode_node::StartStep& action);
  void TryVerify(const decode_node::Verify& action);
  void Broken(const std::string& what);

  World& world_;
  const handoff::NodeId id_;
  const decode_node::DecodeConfig config_;
  const handoff::Proof proof_;
  const DecodeTiming timing_;
  decode_node::DecodeCore core_;
  Arena arena_;
  Time timer_ = kNever;
  std::vector<handoff::NodeId> peers_;
  std::map<handoff::PlacementKey, std::vector<kv::BlockId>> expected_;
  std::map<std::int32_t, std::multiset<handoff::PlacementKey>> writers_;  // by block
  std::map<handoff::PlacementKey, std::int32_t> posted_;  // receives into memory under way
  std::set<handoff::PlacementKey> stopping_;              // StopExpecting to be answered
  std::set<std::tuple<handoff::PlacementKey, std::int32_t, std::int32_t>> landed_;
  std::vector<decode_node::Verify> waiting_verifies_;
};

}  // namespace tandem::sim
