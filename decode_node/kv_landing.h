// The memory that sources write, and what DecodeCore wants of it: ranges expected and forgotten,
// checksums verified, writers watched. Makes no decision.
//
// Region 0 of the sink is the arena, region 1 the test region of probes. On the strand but for
// Create and destruction; the transport's events and the checksums come from their own threads and
// are posted.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/status.h"
#include "common/device/memory.h"
#include "common/handoff/messages.h"
#include "common/net/fd_watch.h"
#include "common/net/strand.h"
#include "common/worker/background.h"
#include "decode_node/core/actions.h"
#include "kv_transfer/create.h"
#include "kv_transfer/transfer.h"

namespace tandem::decode_node {

class KvLanding {
 public:
  struct Options {
    kv::KvLayout layout;
    kv::BlockCount num_blocks{0};
    handoff::Incarnation incarnation;
    transfer::Transport transport = transfer::Transport::kUcxShm;
    std::string net_device;                        // of ucx-tcp
    std::shared_ptr<transfer::loopback::Hub> hub;  // of loopback
  };
  // On the strand.
  struct Events {
    std::function<void(VerifyTicket, bool ok)> layer_verified;
    std::function<void(handoff::PlacementKey)> sink_drained;
    std::function<void(handoff::PlacementKey)> data_arrived;
    std::function<void(handoff::NodeId source)> writer_gone;
    std::function<void(handoff::NodeId source, std::uint64_t nonce, bool ok)> probe_verified;
  };

  // Errors: ResourceExhausted with advice when the memory is not to be had; Unavailable when the
  // transport is not.
  static StatusOr<std::unique_ptr<KvLanding>> Create(const net::Strand& strand,
                                                     const Options& options, Events events);
  // The threads have ended: no event follows. Requires: the strand runs no more.
  ~KvLanding();

  // Zero at first.
  device::MemoryRegion arena_memory() const;
  const transfer::SinkDescriptor& descriptor() const { return sink_->descriptor(); }
  // What proves that a source writes no more.
  handoff::Proof proof() const;

  // Why this source cannot write here; nothing when it can.
  std::optional<handoff::HelloRefused> Check(const handoff::Hello& source) const;
  // Watches its process where memory is shared, and takes its probes.
  void Connect(handoff::NodeId source, const handoff::Hello& hello);
  // Its process is watched on: a writer may outlive its connection.
  void Disconnected(handoff::NodeId source);

  void Do(const Expect& expect);
  void Do(const StopExpecting& stop);
  void Do(const Verify& verify);
  void Do(const VerifyProbe& probe);
  // Reports the placements whose data came since the last call.
  void PollArrivals();

  // Tickets expected, checksums under way; zero when nothing is left to do.
  std::size_t num_pending() const { return expected_.size() + verifying_; }
  std::size_t num_watched() const { return writers_.size(); }

 private:
  struct Source {
    handoff::Incarnation incarnation;
    std::string name;
  };
  struct Writer {
    std::optional<transfer::PeerProcess> process;
    std::optional<net::FdWatch> watch;
  };
  struct Expected {
    handoff::PlacementKey key;
    ByteCount seen{0};
  };

  KvLanding(const net::Strand& strand, const Options& options, Events events);
  void Watch(handoff::NodeId source, const handoff::Hello& hello);
  void OnSinkEvent(const transfer::SinkEvent& event);
  std::uint64_t ChecksumOf(const Verify& verify) const;  // off the strand
  bool InArena(const Verify& verify) const;
  bool SharesMemory() const { return sink_->drain_proof() == transfer::DrainProof::kWriter; }

  const net::Strand strand_;
  const Options options_;
  const Events events_;
  std::unique_ptr<transfer::Sink> sink_;
  transfer::ProcessIdentity self_;
  std::map<handoff::NodeId, Source> sources_;
  std::map<handoff::NodeId, Writer> writers_;
  absl::flat_hash_map<transfer::Ticket, Expected> expected_;
  std::size_t verifying_ = 0;
  worker::Background background_;
};

}  // namespace tandem::decode_node
