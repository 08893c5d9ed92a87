#include "prefill_node/core/prefill_core.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/kv/block_hash.h"
#include "prefill_node/core/prefill_impl.h"

namespace tandem::prefill_node {

using handoff::NodeId;
using handoff::PlacementKey;
using handoff::Reason;

Status PrefillConfig::Validate() const {
  if (name.empty()) return InvalidArgument("name is empty");
  if (incarnation == handoff::Incarnation()) return InvalidArgument("incarnation is 0");
  TANDEM_RETURN_IF_ERROR(layout.Validate());
  if (num_blocks < kv::BlockCount(1)) return InvalidArgument("num_blocks is {}", num_blocks);
  if (step_tokens < TokenCount(1)) return InvalidArgument("step_tokens is {}", step_tokens);
  if (step_sequences < 1) return InvalidArgument("step_sequences is {}", step_sequences);
  if (tasks_max < 1) return InvalidArgument("tasks_max is {}", tasks_max);
  if (outstanding_max < ByteCount(1)) {
    return InvalidArgument("outstanding_max is {}", outstanding_max);
  }
  return OkStatus();
}

PrefillCore::Impl::Impl(const PrefillConfig& config) : config_(config), cache_(config.num_blocks) {}

void PrefillCore::Impl::SendTo(NodeId to, handoff::Message message, Actions& out) {
  const Sink* sink = FindSink(to);
  if (routers_.contains(to) || (sink != nullptr && sink->connected)) {
    out.emplace_back(Send{to, std::move(message)});
  }
}

// --- routers

void PrefillCore::Impl::RouterConnected(NodeId router, const handoff::Hello& hello, Actions&) {
  routers_[router].incarnation = hello.incarnation;
}

// The sinks it named stay dialed: what is left between them and this node (writes under way,
// a Revoke) ends over these connections, and nobody else dials.
void PrefillCore::Impl::RouterLost(Time now, NodeId router, Actions& out) {
  if (routers_.erase(router) == 0) return;
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    Task& task = *(it++)->second;
    if (task.machine.router() != router) continue;
    ++counters_.cancelled;
    EndTask(now, task, out);
  }
}

// A sink that nobody names any more stays while it is connected, for the same reason.
void PrefillCore::Impl::OnPeers(NodeId from, const handoff::Peers& message, Actions& out) {
  routers_[from].peers = message.sinks;
  std::vector<handoff::PeerInfo> dialed;
  auto add = [&](const handoff::PeerInfo& peer) {
    const bool known = std::any_of(dialed.begin(), dialed.end(),
                                   [&](const auto& other) { return other.name == peer.name; });
    if (!known) dialed.push_back(peer);
  };
  for (const auto& [id, router] : routers_) {
    for (const handoff::PeerInfo& peer : router.peers) add(peer);
  }
  for (const handoff::PeerInfo& peer : dialed_) {
    if (SinkByName(peer.name) != NodeId(0)) add(peer);
  }
  dialed_ = dialed;
  out.emplace_back(DialSinks{std::move(dialed)});
}

void PrefillCore::Impl::OnPrefill(Time now, NodeId from, const handoff::Prefill& message,
                                  Actions& out) {
  auto known = tasks_.find(message.request);
  if (known != tasks_.end() && known->second->machine.attempt() >= message.attempt) {
    ++counters_.stale_messages;
    return;
  }
  if (known != tasks_.end()) EndTask(now, *known->second, out);
  Reason reason = Machine::Check(message);
  if (message.request.router != routers_[from].incarnation) reason = Reason::kStale;
  if (reason == Reason::kNone) {
    const auto tokens = static_cast<std::int64_t>(message.tokens->size());
    if (message.model_instance != config_.model_instance) {
      reason = Reason::kModelMismatch;
    } else if (draining()) {
      reason = Reason::kDraining;
    } else if (tokens > config_.max_context.value() ||
               BlocksOf(TokenCount(static_cast<std::int32_t>(tokens))) >
                   config_.num_blocks.value()) {
      reason = Reason::kTooLong;
    } else if (tasks_.size() >= static_cast<std::size_t>(config_.tasks_max)) {
      reason = Reason::kFull;
    }
  }
  if (reason != Reason::kNone) {
    ++counters_.refused;
    SendTo(from, handoff::Refused{message.request, message.attempt, reason}, out);
    return;
  }
  ++counters_.accepted;
  SendTo(from, handoff::Accepted{message.request, message.attempt}, out);
  auto task = std::make_unique<Task>(message, from, now, next_tag_++);
  if (message.hashes != nullptr) {
    task->block_hashes = kv::BlockHashes(*message.hashes, config_.layout.block_size);
  }
  if (task->machine.deadline() != kNever) {
    deadlines_.Set(message.request, task->machine.deadline());
  }
  queued_.emplace(task->tag, task.get());
  tasks_.emplace(message.request, std::move(task));
}

void PrefillCore::Impl::OnCancel(Time now, NodeId from, const handoff::Cancel& message,
                                 Actions& out) {
  const PlacementKey& key = message.key;
  const handoff::Cancelled answer{key};
  auto it = tasks_.find(key.request);
  const bool hits =
      it != tasks_.end() && it->second->machine.router() == from &&
      (it->second->machine.attempt() < key.attempt ||
       (it->second->machine.attempt() == key.attempt && key.placement == handoff::kAllPlacements));
  if (!hits) {
    SendTo(from, answer, out);
    return;
  }
  Task& task = *it->second;
  ++counters_.cancelled;
  if (task.in_step) {
    task.answer = answer;  // it computes until the step ends
  } else {
    SendTo(from, answer, out);
  }
  EndTask(now, task, out);
}

void PrefillCore::Impl::FailTask(Time now, Task& task, Reason reason, Actions& out) {
  ++counters_.failed;
  PlacementKey key{task.machine.request(), task.machine.attempt(), handoff::Placement(0)};
  if (task.placement.has_value()) key = task.placement->key();
  SendTo(task.machine.router(), handoff::Failed{key, reason}, out);
  EndTask(now, task, out);
}

void PrefillCore::Impl::EndTask(Time now, Task& task, Actions& out) {
  if (task.placement.has_value() && task.placement->live()) DropPlacement(now, task, out);
  task.machine.Finish();
  queued_.erase(task.tag);
  active_.erase(task.tag);
  waiting_.erase(task.tag);
  deadlines_.Remove(task.machine.request());
  auto it = tasks_.find(task.machine.request());
  TANDEM_CHECK(it != tasks_.end() && it->second.get() == &task);
  if (task.in_step) {
    task.ended = true;
    remainders_.push_back(std::move(it->second));
  } else {
    Free(task);
  }
  tasks_.erase(it);
}

void PrefillCore::Impl::Free(Task& task) {
  cache_.Unref(task.blocks);
  task.blocks.clear();
}

// --- draining

void PrefillCore::Impl::BeginDrain(Time now, Duration budget, Actions& out) {
  const bool first = !draining();
  drain_end_ =
      std::min(drain_end_, now + std::clamp(budget, Duration(0), handoff::kDrainBudgetMax));
  if (first) {  // peers choose others from now on, and know that the end will be in order
    for (const auto& [id, router] : routers_) SendTo(id, MakeHeartbeat(now, id), out);
    for (const auto& [id, sink] : sinks_) SendTo(id, MakeHeartbeat(now, id), out);
  }
  if (drain_end_ <= now) MoveTasks(now, out);
}

void PrefillCore::Impl::MoveTasks(Time now, Actions& out) {
  moved_ = true;
  while (!tasks_.empty()) FailTask(now, *tasks_.begin()->second, Reason::kDraining, out);
}

bool PrefillCore::Impl::drained() const {
  if (!draining() || !tasks_.empty()) return false;
  return gave_up_ || (draining_.empty() && remainders_.empty());
}

// --- messages and time

void PrefillCore::Impl::OnMessage(Time now, NodeId from, const handoff::Message& message,
                                  Actions& out) {
  const std::int64_t stale = counters_.stale_messages;
  Handle(now, from, message, out);
  if (counters_.stale_messages != stale) out.emplace_back(handoff::StaleNote(from, message));
}

void PrefillCore::Impl::Handle(Time now, NodeId from, const handoff::Message& message,
                               Actions& out) {
  const Sink* sink = FindSink(from);
  if (routers_.contains(from)) {
    if (const auto* m = std::get_if<handoff::Prefill>(&message)) {
      OnPrefill(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::PlacementNoted>(&message)) {
      OnNoted(from, *m, out);
    } else if (const auto* m = std::get_if<handoff::PlacementRefused>(&message)) {
      OnPlacementRefused(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::Cancel>(&message)) {
      OnCancel(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::Peers>(&message)) {
      OnPeers(from, *m, out);
    } else if (const auto* m = std::get_if<handoff::Drain>(&message)) {
      BeginDrain(now, m->budget, out);
    } else if (!std::holds_alternative<handoff::Heartbeat>(message)) {
      ++counters_.stale_messages;
    }
  } else if (sink != nullptr && sink->connected) {
    if (const auto* m = std::get_if<handoff::Reserved>(&message)) {
      OnReserved(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::ReserveRefused>(&message)) {
      OnReserveRefused(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::Joined>(&message)) {
      OnJoined(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::Rejected>(&message)) {
      OnRejected(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::Revoke>(&message)) {
      OnRevoke(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::RenewAnswer>(&message)) {
      OnRenewAnswer(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::Heartbeat>(&message)) {
      OnSinkHeartbeat(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::Probed>(&message)) {
      ProbeEnded(now, from, m->nonce, m->ok, out);
    } else {
      ++counters_.stale_messages;
    }
  } else {
    ++counters_.stale_messages;
  }
}

void PrefillCore::Impl::OnTime(Time now, Actions& out) {
  while (auto request = deadlines_.Pop(now)) {
    FailTask(now, *tasks_.at(*request), Reason::kExpired, out);
  }
  while (auto key = leases_.Pop(now)) {
    Task* task = FindTask(*key);
    TANDEM_CHECK(task != nullptr && task->placement->leased());
    NoteLeaseExpired(*task, out);
    DropAndPlace(now, *task, Reason::kExpired, out);
  }
  while (auto key = returns_.Pop(now)) {
    Task* task = FindTask(*key);
    TANDEM_CHECK(task != nullptr);
    DropAndPlace(now, *task, Reason::kNoSink, out);
  }
  SinkTimers(now, out);
  if (!draining()) return;
  if (!moved_ && drain_end_ <= now) MoveTasks(now, out);
  if (moved_ && drain_end_ + handoff::kDrainGrace <= now) gave_up_ = true;
}

Time PrefillCore::Impl::NextDeadline() const {
  Time next = std::min({deadlines_.next(), leases_.next(), returns_.next()});
  for (const auto& [id, sink] : sinks_) {
    if (sink.connected) next = std::min({next, sink.renew_at, sink.probe_at});
  }
  if (!draining() || gave_up_) return next;
  return std::min(next, moved_ ? drain_end_ + handoff::kDrainGrace : drain_end_);
}

handoff::Heartbeat PrefillCore::Impl::MakeHeartbeat(Time now, NodeId to) {
  handoff::Heartbeat heartbeat;
  heartbeat.draining = draining();
  auto router = routers_.find(to);
  if (router == routers_.end()) return heartbeat;
  heartbeat.queued = static_cast<std::uint32_t>(queued_.size());
  heartbeat.running = static_cast<std::uint32_t>(tasks_.size() - queued_.size());
  for (const auto& [request, task] : tasks_) {
    if (!task->ended) heartbeat.queued_tokens += task->machine.left();
  }
  heartbeat.free_blocks = cache_.counts().available();
  heartbeat.quarantined_blocks = cache_.counts().quarantined;
  heartbeat.step_number = step_.number;
  if (step_.running) heartbeat.step_running_for = now - step_.started;
  heartbeat.fit = {fit_.time().fixed_s, fit_.time().per_token_s, fit_.time().per_pair_s};
  for (const auto& [id, sink] : sinks_) {
    if (sink.connected && sink.usable) heartbeat.usable_sinks.push_back(sink.hello.name);
  }
  router->second.cache_cursor = cache_.Changes(router->second.cache_cursor, 1024,
                                               heartbeat.cached_added, heartbeat.cached_removed);
  return heartbeat;
}

scheduler::StepProgress PrefillCore::Impl::progress(Time now) const {
  if (!step_.running) return {.number = step_.number};
  return {.number = step_.number,
          .running_for = std::max(now - step_.started, Duration(1)),
          .stuck_after = step_.stuck_after};
}

PrefillStats PrefillCore::Impl::stats() const {
  PrefillStats stats = counters_;
  stats.blocks = cache_.counts();
  stats.routers = static_cast<std::int32_t>(routers_.size());
  for (const auto& [id, sink] : sinks_) {
    ++(sink.connected ? stats.sinks : stats.lost_sinks);
    stats.usable_sinks += sink.connected && sink.usable ? 1 : 0;
    stats.outstanding_bytes += sink.outstanding.value();
  }
  stats.tasks = static_cast<std::int32_t>(tasks_.size() + remainders_.size());
  stats.queued = static_cast<std::int32_t>(queued_.size());
  stats.waiting_room = static_cast<std::int32_t>(waiting_.size());
  for (const auto& [request, task] : tasks_) stats.placements += task->placement.has_value();
  stats.draining = static_cast<std::int32_t>(draining_.size());
  stats.leases = static_cast<std::int32_t>(leases_.size());
  stats.step_tokens = StepTokens().value();
  stats.step_fit = fit_.quality();
  stats.link_fit = link_fit_.quality();
  return stats;
}

}  // namespace tandem::prefill_node
