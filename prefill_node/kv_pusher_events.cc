// What KvPusher makes of its transports' events.
#include <algorithm>
#include <variant>
#include <vector>

#include "common/log/log.h"
#include "common/worker/probe_pattern.h"
#include "prefill_node/kv_pusher.h"

namespace tandem::prefill_node {

using handoff::NodeId;
using handoff::PlacementKey;
using worker::kProbeBytes;

void KvPusher::OnSourceEvent(const transfer::SourceEvent& event) {
  if (const auto* fenced = std::get_if<transfer::Fenced>(&event)) {
    OnFenced(*fenced);
  } else if (const auto* drained = std::get_if<transfer::Drained>(&event)) {
    OnDrained(drained->link, drained->ticket);
  } else if (const auto* failed = std::get_if<transfer::LinkFailed>(&event)) {
    OnLinkFailed(failed->link, failed->reason);
  }
}

void KvPusher::OnFenced(const transfer::Fenced& fenced) {
  auto it = pending_.find(fenced.cookie.value());
  if (it == pending_.end() || it->second.aborted) return;
  if (!fenced.status.ok()) {
    log::Warning("kv.push.refused", "request={} error=\"{}\"", it->second.key.request.number,
                 FromAbsl(fenced.status.message()));
    Fail(it);
    return;
  }
  it->second.fenced = true;
  Settle(fenced.cookie.value());
}

// A push stays, as aborted, while its checksum still reads the blocks.
void KvPusher::Fail(PendingMap::iterator it) {
  Pending pending = it->second;
  if (pending.checksum) {
    pending_.erase(it);
  } else {
    it->second.aborted = true;
  }
  if (pending.is_probe) {
    FinishProbe(pending, false);
  } else {
    events_.push_failed(pending.ticket);
  }
}

void KvPusher::OnChecksum(std::uint64_t cookie, std::uint64_t checksum) {
  auto it = pending_.find(cookie);
  if (it == pending_.end()) return;
  if (it->second.aborted) {
    const PlacementKey key = it->second.key;
    pending_.erase(it);
    if (auto aborting = aborting_.find(key); aborting != aborting_.end()) --aborting->second.sums;
    SettleAbort(key);
    return;
  }
  it->second.checksum = checksum;
  Settle(cookie);
}

void KvPusher::Settle(std::uint64_t cookie) {
  auto it = pending_.find(cookie);
  if (!it->second.fenced || !it->second.checksum) return;
  Pending pending = std::move(it->second);
  pending_.erase(it);
  if (pending.is_probe) {
    FinishProbe(pending, true);
  } else {
    log::Debug("kv.push.fenced", "request={} bytes={}", pending.key.request.number, pending.bytes);
    events_.push_fenced(pending.ticket, pending.bytes, *pending.checksum);
  }
  DropIdleLink(pending.sink);
}

void KvPusher::FinishProbe(Pending& probe, bool ok) {
  free_slots_.push_back(probe.slot);
  if (ok) {
    events_.probe_written(probe.sink, probe.nonce, ByteCount(kProbeBytes), *probe.checksum);
  } else {
    events_.probe_failed(probe.sink, probe.nonce);
  }
}

void KvPusher::OnDrained(transfer::LinkId id, const transfer::Ticket& ticket) {
  for (auto& [key, aborting] : aborting_) {
    auto link = links_.find(aborting.sink);
    if (worker::TicketOf(key) != ticket || link == links_.end() || link->second->id != id) continue;
    aborting.drained = true;
    SettleAbort(PlacementKey(key));
    return;
  }
}

void KvPusher::SettleAbort(PlacementKey key) {
  auto it = aborting_.find(key);
  if (it == aborting_.end() || !it->second.drained || it->second.sums > 0) return;
  const NodeId sink = it->second.sink;
  aborting_.erase(it);
  events_.push_drained(key);
  DropIdleLink(sink);
}

// Nothing of the link is outstanding any more: what waits for an answer gets it.
void KvPusher::OnLinkFailed(transfer::LinkId id, const Status& reason) {
  Link* link = LinkById(id);
  if (link == nullptr) return;
  log::Warning("kv.link.failed", "sink={} error=\"{}\"", link->hello.name,
               FromAbsl(reason.message()));
  NodeId sink{0};
  for (const auto& [node, candidate] : links_) {
    if (candidate.get() == link) sink = node;
  }
  link->data.reset();
  std::vector<std::uint64_t> failed;
  for (const auto& [cookie, pending] : pending_) {
    if (pending.sink == sink && !pending.aborted) failed.push_back(cookie);
  }
  std::sort(failed.begin(), failed.end());
  std::vector<PlacementKey> drained;
  for (auto& [key, aborting] : aborting_) {
    if (aborting.sink != sink) continue;
    aborting.drained = true;
    drained.push_back(key);
  }
  for (const std::uint64_t cookie : failed) {
    // The answer to one may have ended others.
    auto it = pending_.find(cookie);
    if (it != pending_.end() && !it->second.aborted) Fail(it);
  }
  for (const PlacementKey& key : drained) SettleAbort(key);
  DropIdleLink(sink);
}

}  // namespace tandem::prefill_node
