// A simulated decode node: DecodeCore, its arena, a model of the engine and of the landing zone.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "decode_node/core/decode_core.h"
#include "deploy/sim/arena.h"
#include "deploy/sim/process.h"

namespace tandem::sim {

// One (layer, range) of a placement, as it lies in the source when it is read.
struct DataPart {
  handoff::PlacementKey key;
  std::int32_t layer = 0;
  std::int32_t first_block = 0;
  std::vector<kv::BlockId> blocks;    // at the sink
  std::vector<std::uint64_t> states;  // [blocks * block_size], or more
};

struct DecodeTiming {
  Duration step_fixed = std::chrono::microseconds(300);
  Duration step_per_sequence = std::chrono::microseconds(20);
  Duration verify = std::chrono::microseconds(30);
};

class DecodeProcess final : public Process {
 public:
  DecodeProcess(World& world, Network& network, const decode_node::DecodeConfig& config,
                handoff::Proof proof, const DecodeTiming& timing);

  void BeginDrain(Duration budget) override;

  // Writes of other processes into this one's memory; they end with the memory's process.
  // One-sided: a write into these blocks is under way, and has ended.
  void WriteBegins(const handoff::PlacementKey& key, std::span<const kv::BlockId> blocks);
  void WriteEnds(const handoff::PlacementKey& key, std::span<const kv::BlockId> blocks);
  // The bytes are in memory (one-sided), or in a message that has come (kReceives).
  void Land(const DataPart& part);
  void DataMessage(Process& from, DataPart part);

  const decode_node::DecodeConfig& config() const { return config_; }
  handoff::Proof proof() const { return proof_; }
  decode_node::DecodeCore& core() { return core_; }
  void CheckAfterEvent() override;
  std::string LeftInBooks() const override;

 private:
  handoff::Hello MakeHello() const override;
  void Connected(handoff::NodeId peer, const handoff::Hello& hello, Process& process) override;
  void Lost(handoff::NodeId peer, handoff::Role role, handoff::Loss loss) override;
  void Received(handoff::NodeId from, handoff::Message message) override;
  handoff::Heartbeat MakeHeartbeat(handoff::NodeId to) override;
  Time NextDeadline() const override;
  void OnTime() override;

  // Gives the core an event and does what it asks for.
  template <typename Event>
  void Do(Event&& event) {
    decode_node::Actions out;
    event(out);
    Act(out);
  }
  void Act(decode_node::Actions& actions);
  void RunStep(const decode_node::StartStep& action);
  void FinishStep(const decode_node::StartStep& action, Duration took);
  void OnExpect(const decode_node::Expect& action);
  void OnStopExpecting(const decode_node::StopExpecting& action);
  void TryVerify(const decode_node::Verify& action);
  void FinishReceive(Process& from, const DataPart& part);
  // A sequence joins: its KV must be what its tokens give, in every layer.
  void CheckJoined(const handoff::PlacementKey& key);

  const decode_node::DecodeConfig config_;
  const handoff::Proof proof_;
  const DecodeTiming timing_;
  decode_node::DecodeCore core_;
  Arena arena_;
  bool exiting_ = false;
  std::set<handoff::NodeId> watched_;
  std::map<handoff::PlacementKey, std::vector<kv::BlockId>> expected_;
  std::map<handoff::PlacementKey, handoff::TokenList> handed_off_;
  std::map<std::int32_t, std::multiset<handoff::PlacementKey>> writers_;  // by block
  std::map<handoff::PlacementKey, std::int32_t> posted_;  // receives into memory under way
  std::set<handoff::PlacementKey> stopping_;              // StopExpecting to be answered
  std::set<std::tuple<handoff::PlacementKey, std::int32_t, std::int32_t>> landed_;
  std::vector<decode_node::Verify> waiting_verifies_;
};

}  // namespace tandem::sim
