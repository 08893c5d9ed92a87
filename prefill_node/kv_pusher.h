// Carries out the transfers that PrefillCore decides: writes, fences, checksums, probes. Makes no
// decision of its own; a data path that fails is opened again when the core next probes it.
//
// Its memory is one mapping: the arena, then a page for each probe under way. On the strand but for
// Create and destruction; the transport's events and the checksums come from their own threads and
// are posted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/status.h"
#include "common/device/memory.h"
#include "common/handoff/messages.h"
#include "common/kv/layout_map.h"
#include "common/net/strand.h"
#include "common/worker/background.h"
#include "kv_transfer/create.h"
#include "kv_transfer/host_memory.h"
#include "kv_transfer/transfer.h"
#include "prefill_node/core/actions.h"

namespace tandem::prefill_node {

class KvPusher {
 public:
  struct Options {
    kv::KvLayout layout;
    kv::BlockCount num_blocks{0};
    handoff::Incarnation incarnation;
    // Unset: whatever the sink takes. Set: sinks of another transport are refused.
    std::optional<transfer::Transport> transport;
    std::string net_device;                        // of ucx-tcp
    std::shared_ptr<transfer::loopback::Hub> hub;  // of loopback
  };
  // On the strand.
  struct Events {
    std::function<void(PushTicket, ByteCount bytes, std::uint64_t checksum)> push_fenced;
    std::function<void(PushTicket)> push_failed;
    std::function<void(handoff::PlacementKey)> push_drained;
    std::function<void(handoff::NodeId, std::uint64_t nonce, ByteCount, std::uint64_t checksum)>
        probe_written;
    std::function<void(handoff::NodeId, std::uint64_t nonce)> probe_failed;
  };

  // Errors: ResourceExhausted when memory is short.
  static StatusOr<std::unique_ptr<KvPusher>> Create(const net::Strand& strand,
                                                    const Options& options, Events events);
  // The threads have ended: no event follows. Requires: the strand runs no more.
  ~KvPusher();

  // Zero at first.
  device::MemoryRegion arena_memory() const;

  // Why KV cannot be written to this peer; nothing when it can.
  std::optional<handoff::HelloRefused> Check(const handoff::Hello& sink) const;
  void Connect(handoff::NodeId sink, const handoff::Hello& hello);
  // Writes under way go on until the core aborts them.
  void Disconnected(handoff::NodeId sink);

  void Do(const Push& push);
  void Do(const AbortPush& abort);
  void Do(const StartProbe& probe);

  // Transfers that have no answer yet; zero when nothing is left to do.
  std::size_t num_pending() const { return pending_.size() + aborting_.size(); }

 private:
  struct Link {
    handoff::Hello hello;
    bool connected = false;  // by a control connection
    transfer::LinkId id{0};
    std::unique_ptr<transfer::SourceLink> data;  // null: not open, or failed
    kv::BlockCount sink_blocks{0};
  };
  struct Pending {  // a push or probe without an answer
    handoff::NodeId sink;
    // A push:
    PushTicket ticket;
    handoff::PlacementKey key;
    ByteCount bytes{0};
    bool aborted = false;
    // A probe:
    bool is_probe = false;
    std::uint64_t nonce = 0;
    std::size_t slot = 0;

    bool fenced = false;
    std::optional<std::uint64_t> checksum;
  };
  using PendingMap = absl::flat_hash_map<std::uint64_t, Pending>;  // by cookie

  KvPusher(const net::Strand& strand, const Options& options, Events events,
           transfer::HostMemory memory);
  StatusOr<Link*> Open(handoff::NodeId sink);
  StatusOr<transfer::Source*> SourceFor(transfer::Transport transport);
  Status Post(Link& link, const Push& push, std::uint64_t cookie);
  void StartChecksum(const Push& push, std::uint64_t cookie);
  void OnSourceEvent(const transfer::SourceEvent& event);
  void OnFenced(const transfer::Fenced& fenced);
  void OnChecksum(std::uint64_t cookie, std::uint64_t checksum);
  void OnDrained(transfer::LinkId id, const transfer::Ticket& ticket);
  void OnLinkFailed(transfer::LinkId id, const Status& reason);
  void Settle(std::uint64_t cookie);
  void Fail(PendingMap::iterator it);
  void SettleAbort(handoff::PlacementKey key);
  void FinishProbe(Pending& probe, bool ok);
  void DropIdleLink(handoff::NodeId sink);
  Link* LinkById(transfer::LinkId id);
  std::span<std::byte> ProbePage(std::size_t slot);

  const net::Strand strand_;
  const Options options_;
  const Events events_;
  transfer::HostMemory memory_;
  kv::LayoutMap map_;
  std::map<transfer::Transport, std::unique_ptr<transfer::Source>> sources_;
  std::map<handoff::NodeId, std::unique_ptr<Link>> links_;  // destroyed before their sources
  PendingMap pending_;
  struct Aborting {
    handoff::NodeId sink;
    bool drained = false;  // no write is outstanding
    int sums = 0;          // checksums that still read the blocks
  };
  std::map<handoff::PlacementKey, Aborting> aborting_;
  std::vector<std::size_t> free_slots_;
  std::uint64_t next_cookie_ = 1;
  std::uint64_t next_link_ = 1;
  worker::Background background_;
};

}  // namespace tandem::prefill_node
