// The data path of one simulated prefill node: writes into decode nodes' arenas, their fences,
// checksums, aborts and probes. Does what prefill_node/kv_pusher does, and breaks when told to.
//
// A write reads its source as late as it can and lands then. One that its process's stop catches
// lands when the process goes on; one that its death catches lands in part, or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "deploy/sim/arena.h"
#include "deploy/sim/decode_process.h"
#include "deploy/sim/network.h"
#include "deploy/sim/process.h"
#include "prefill_node/core/actions.h"

namespace tandem::sim {

class Pusher {
 public:
  struct Events {
    std::function<void(prefill_node::PushTicket, ByteCount, std::uint64_t checksum)> fenced;
    std::function<void(prefill_node::PushTicket)> failed;
    std::function<void(handoff::PlacementKey)> drained;
    std::function<void(handoff::NodeId sink, std::uint64_t nonce, bool ok)> probed;
  };
  Pusher(World& world, Network& network, Process& owner, Arena& arena, Events events);

  void Connect(handoff::NodeId sink, DecodeProcess& process);
  void Disconnected(handoff::NodeId sink) { sinks_.at(sink).connected = false; }
  void Do(const prefill_node::Push& push);
  void Do(const prefill_node::AbortPush& abort);
  void Do(const prefill_node::StartProbe& probe);
  // Its process is dead.
  void Die();

  void FailPuts(std::int32_t count) { failing_puts_ += count; }
  void CorruptPuts(std::int32_t count) { corrupt_puts_ += count; }

  // A write still reads this block.
  bool Reads(std::int32_t layer, kv::BlockId block) const {
    return readers_.contains({layer, block});
  }
  std::size_t num_pending() const { return writes_.size() + aborting_.size(); }

 private:
  struct Sink {
    DecodeProcess* process = nullptr;
    bool connected = false;
  };
  struct Write {
    prefill_node::Push push;
    std::vector<kv::BlockId> sources;
    DataPart part;
  };
  using Writes = std::map<std::uint64_t, Write>;  // by ticket

  void Finish(std::uint64_t ticket);
  void Read(Write& write);
  void End(Writes::iterator it, bool lands);
  void SendData(DecodeProcess& sink, DataPart part);
  void FailLink(handoff::NodeId sink);
  void SettleAbort(const handoff::PlacementKey& key);

  World& world_;
  Network& network_;
  Process& owner_;
  Arena& arena_;
  const Events events_;
  std::map<handoff::NodeId, Sink> sinks_;
  Writes writes_;
  std::set<handoff::PlacementKey> aborting_;
  std::map<std::pair<std::int32_t, kv::BlockId>, std::int32_t> readers_;  // of (layer, block)
  std::int32_t failing_puts_ = 0;
  std::int32_t corrupt_puts_ = 0;
};

}  // namespace tandem::sim
