// PrefillCore: connections to sinks, probes, leases.
#include <algorithm>

#include "common/base/check.h"
#include "prefill_node/core/prefill_impl.h"

namespace tandem::prefill_node {

using handoff::NodeId;
using handoff::PlacementKey;
using handoff::Reason;

PrefillCore::Impl::Sink* PrefillCore::Impl::FindSink(NodeId id) {
  auto it = sinks_.find(id);
  return it == sinks_.end() ? nullptr : &it->second;
}

NodeId PrefillCore::Impl::SinkByName(std::string_view name) const {
  for (const auto& [id, sink] : sinks_) {
    if (sink.connected && sink.hello.name == name) return id;
  }
  return NodeId(0);
}

void PrefillCore::Impl::SinkConnected(Time now, NodeId id, const handoff::Hello& hello,
                                      Actions& out) {
  for (auto it = sinks_.begin(); it != sinks_.end();) {
    const NodeId old = it->first;
    const bool other_life = old != id && (it++)->second.hello.name == hello.name;
    if (old == id) ++it;
    if (other_life) SinkReplaced(now, old, out);
  }
  Sink& sink = sinks_[id];
  if (sink.connected) SinkLost(now, id, out);
  sink.hello = hello;
  sink.connected = true;
  sink.usable = sink.full = sink.draining = sink.replaced = false;
  sink.free_blocks = hello.capacity.num_blocks;
  sink.probe_at = kNever;
  sink.probe_nonce = next_nonce_++;
  out.emplace_back(StartProbe{id, sink.probe_nonce});
  // A hand-off whose answer was lost with the connection is repeated.
  for (auto& [request, task] : tasks_) {
    if (!task->placement.has_value() || task->placement->sink() != id) continue;
    TANDEM_CHECK(task->placement->state() == Placement::State::kHandingOff);
    returns_.Remove(task->placement->key());
    SendHandOff(*task, out);
  }
}

// The sink's process is another one now: what the old one had is lost.
void PrefillCore::Impl::SinkReplaced(Time now, NodeId old, Actions& out) {
  SinkLost(now, old, out);
  std::vector<PlacementKey> lost;
  for (auto& [request, task] : tasks_) {
    if (task->placement.has_value() && task->placement->sink() == old) {
      lost.push_back(task->placement->key());
    }
  }
  for (const PlacementKey& key : lost) {
    if (Task* task = FindTask(key)) DropAndPlace(now, *task, Reason::kNoSink, out);
  }
  FindSink(old)->replaced = true;
  ForgetReplaced(old);
}

void PrefillCore::Impl::ForgetReplaced(NodeId id) {
  const Sink* sink = FindSink(id);
  if (sink != nullptr && sink->replaced && sink->outstanding == ByteCount(0)) sinks_.erase(id);
}

void PrefillCore::Impl::SinkLost(Time now, NodeId id, Actions& out) {
  Sink* sink = FindSink(id);
  if (sink == nullptr || !sink->connected) return;
  sink->connected = sink->usable = false;
  sink->renew_at = sink->probe_at = kNever;
  sink->probe_nonce = 0;
  std::vector<PlacementKey> placed;
  for (auto& [request, task] : tasks_) {
    if (task->placement.has_value() && task->placement->sink() == id) {
      placed.push_back(task->placement->key());
    }
  }
  for (const PlacementKey& key : placed) {
    Task* task = FindTask(key);
    if (task == nullptr) continue;
    if (task->placement->state() == Placement::State::kHandingOff) {
      returns_.Set(key, now + handoff::kSinkReturn);  // it may have joined: ask when it is back
    } else {
      DropAndPlace(now, *task, Reason::kNoSink, out);
    }
  }
  PlaceWaiting(now, out);  // those that waited for this one alone
}

void PrefillCore::Impl::OnSinkHeartbeat(Time now, NodeId from, const handoff::Heartbeat& message,
                                        Actions& out) {
  Sink& sink = *FindSink(from);
  sink.free_blocks = message.free_blocks;
  sink.draining = message.draining;
  PlaceWaiting(now, out);
  if (waiting_.empty()) sink.full = false;
}

// --- probes

void PrefillCore::Impl::ProbeWritten(NodeId id, std::uint64_t nonce, ByteCount bytes,
                                     std::uint64_t checksum, Actions& out) {
  const Sink* sink = FindSink(id);
  if (sink == nullptr || !sink->connected || sink->probe_nonce != nonce) return;
  SendTo(id, handoff::Probe{nonce, bytes, checksum}, out);
}

void PrefillCore::Impl::ProbeEnded(Time now, NodeId id, std::uint64_t nonce, bool ok,
                                   Actions& out) {
  Sink* sink = FindSink(id);
  if (sink == nullptr || !sink->connected || sink->probe_nonce != nonce) return;
  sink->probe_nonce = 0;
  sink->usable = ok;
  sink->probe_at = now + (ok ? config_.probe_every : config_.probe_again);
  PlaceWaiting(now, out);
}

// --- leases

void PrefillCore::Impl::SinkTimers(Time now, Actions& out) {
  for (auto& [id, sink] : sinks_) {
    if (!sink.connected) continue;
    if (sink.probe_at <= now) {
      sink.probe_at = kNever;
      sink.probe_nonce = next_nonce_++;
      out.emplace_back(StartProbe{id, sink.probe_nonce});
    }
    if (sink.renew_at <= now) RenewLeases(now, id, sink, out);
  }
}

void PrefillCore::Impl::RenewLeases(Time now, NodeId id, Sink& sink, Actions& out) {
  handoff::Renew renew;
  for (auto& [request, task] : tasks_) {
    if (!task->placement.has_value() || task->placement->sink() != id) continue;
    Placement& placement = *task->placement;
    if (!placement.leased() && placement.state() != Placement::State::kHandingOff) continue;
    placement.OnRenewSent(now);
    renew.live.push_back(placement.key());
  }
  sink.renew_at = renew.live.empty() ? kNever : now + handoff::kRenewEvery;
  if (!renew.live.empty()) SendTo(id, std::move(renew), out);
}

void PrefillCore::Impl::OnRenewAnswer(Time now, NodeId from, const handoff::RenewAnswer& message,
                                      Actions& out) {
  for (const PlacementKey& key : message.gone) {
    Task* task = FindTask(key);
    // After HandOff its answer decides; here the sink has given the blocks up.
    if (task == nullptr || task->placement->sink() != from || !task->placement->leased()) continue;
    DropAndPlace(now, *task, Reason::kExpired, out);
  }
  for (auto& [request, task] : tasks_) {
    if (!task->placement.has_value() || task->placement->sink() != from) continue;
    Placement& placement = *task->placement;
    placement.OnRenewed();
    if (placement.leased()) leases_.Set(placement.key(), placement.stop_at());
  }
}

}  // namespace tandem::prefill_node
