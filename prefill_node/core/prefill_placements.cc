// PrefillCore: where each task's KV goes; placements, pushes, the hand-off.
#include <utility>

#include "common/base/check.h"
#include "common/kv/span.h"
#include "prefill_node/core/prefill_impl.h"

namespace tandem::prefill_node {

using handoff::NodeId;
using handoff::PlacementKey;
using handoff::Reason;

PrefillCore::Impl::Task* PrefillCore::Impl::FindTask(const PlacementKey& key) {
  auto it = tasks_.find(key.request);
  if (it == tasks_.end() || !it->second->placement.has_value()) return nullptr;
  return it->second->placement->key() == key ? it->second.get() : nullptr;
}

// Sends Reserve to the best sink left; waits when all of them are full; fails without any.
void PrefillCore::Impl::Place(Time now, Task& task, Actions& out) {
  TANDEM_CHECK(!task.placement.has_value());
  Machine& machine = task.machine;
  const TokenCount headroom(
      std::min(machine.params().max_tokens.value() - machine.first_position().value(),
               handoff::kHeadroom.value()));
  const kv::BlockCount need = config_.layout.BlocksFor(machine.num_tokens() + headroom);
  // First come, first served: where others wait for room, this one waits too.
  const bool is_first = waiting_.empty() || waiting_.begin()->first >= task.tag;
  auto usable = [&](std::string_view name) {
    const Sink* sink = FindSink(SinkByName(name));
    return sink != nullptr && sink->usable && !sink->draining;
  };
  auto has_room = [&](std::string_view name) {
    if (!usable(name)) return false;
    const Sink* sink = FindSink(SinkByName(name));
    return !sink->full || (is_first && sink->free_blocks >= need);
  };
  waiting_.erase(task.tag);
  const auto index = machine.NextSink(has_room);
  if (!index.has_value()) {
    if (machine.NextSink(usable).has_value()) {
      waiting_.emplace(task.tag, &task);
    } else {
      FailTask(now, task, machine.failure(), out);
    }
    return;
  }
  const NodeId id = SinkByName(machine.sink_name(*index));
  Sink& sink = *FindSink(id);
  if (sink.full) sink.free_blocks -= need;
  const bool again = machine.placements() > 0;
  task.sink_index = *index;
  const PlacementKey key = machine.Place(*index);
  if (again) {
    ++counters_.placed_again;
    out.emplace_back(NodeNote{
        .what = NodeNote::What::kPlacedAgain, .key = key, .peer = id, .reason = machine.failure()});
  }
  task.writes = 0;
  task.placement.emplace(key, id, config_.layout.num_layers, BlocksOf(machine.num_tokens()), now);
  SendTo(id,
         handoff::Reserve{key, config_.model_instance, machine.num_tokens(), headroom,
                          machine.hashes()},
         out);
}

void PrefillCore::Impl::PlaceWaiting(Time now, Actions& out) {
  while (!waiting_.empty()) {
    Task& first = *waiting_.begin()->second;
    const std::uint64_t tag = first.tag;
    Place(now, first, out);  // takes it out, or puts it back
    if (!waiting_.empty() && waiting_.begin()->first == tag) return;
  }
}

// Gives the current placement up. The sink may reuse the blocks once no write is outstanding.
void PrefillCore::Impl::DropPlacement(Time now, Task& task, Actions& out) {
  Placement& placement = *task.placement;
  const bool has_blocks = placement.state() != Placement::State::kReserving;
  leases_.Remove(placement.key());
  returns_.Remove(placement.key());
  placement.Drop(now);
  if (placement.state() == Placement::State::kDraining) {
    for (kv::BlockId block : task.blocks) cache_.Ref(block);
    out.emplace_back(AbortPush{placement.key(), placement.sink()});
    const PlacementKey key = placement.key();
    draining_.emplace(key, Draining{std::move(placement), task.blocks});
  } else if (has_blocks) {
    SendTo(placement.sink(), handoff::Release{placement.key(), true}, out);
  }  // else: a Reserved that still comes is answered by Release
  task.placement.reset();
}

void PrefillCore::Impl::NoteLeaseExpired(const Task& task, Actions& out) {
  ++counters_.leases_expired;
  out.emplace_back(NodeNote{.what = NodeNote::What::kLeaseExpired,
                            .key = task.placement->key(),
                            .peer = task.placement->sink()});
}

void PrefillCore::Impl::DropAndPlace(Time now, Task& task, Reason reason, Actions& out) {
  task.machine.OnPlacementFailed(reason);
  DropPlacement(now, task, out);
  Place(now, task, out);
}

void PrefillCore::Impl::FinishDraining(std::map<PlacementKey, Draining>::iterator it,
                                       Actions& out) {
  SendTo(it->second.placement.sink(), handoff::Release{it->first, true}, out);
  cache_.Unref(it->second.blocks);
  draining_.erase(it);
}

// --- pushes

void PrefillCore::Impl::Pump(Time now, Task& task, Actions& out) {
  if (!task.placement.has_value()) return;
  Placement& placement = *task.placement;
  // After a sleep of this process anything may come before OnTime, which gives the placement up.
  if (placement.leased() && now >= placement.stop_at()) return;
  Sink& sink = *FindSink(placement.sink());
  for (std::int32_t layer = 0; layer < config_.layout.num_layers; ++layer) {
    const auto range = placement.Next(kv::Layer(layer), ReadyBlocks(task, layer));
    if (!range.has_value()) continue;
    if (sink.outstanding >= config_.outstanding_max) {
      sink.limited = true;
      return;
    }
    const auto first = static_cast<std::size_t>(range->first);
    const auto count = static_cast<std::size_t>(range->count);
    const std::int32_t first_token = range->first * config_.layout.block_size;
    const std::int32_t last_token =
        std::min((range->first + range->count) * config_.layout.block_size,
                 task.machine.num_tokens().value());
    Push push;
    push.ticket = PushTicket(next_ticket_++);
    push.key = placement.key();
    push.sink = placement.sink();
    push.layer = range->layer;
    push.first_block = range->first;
    push.spans = std::make_shared<const std::vector<kv::CopySpan>>(
        kv::MergeSpans(std::span(task.blocks).subspan(first, count),
                       std::span(placement.sink_blocks()).subspan(first, count)));
    push.first_token = TokenIndex(first_token);
    push.num_tokens = TokenCount(last_token - first_token);
    push.bytes = ByteCount(range->count * config_.layout.block_bytes().value());
    placement.OnPosted(now, push.ticket.value(), *range, push.bytes);
    tickets_.emplace(push.ticket.value(), push.key);
    sink.outstanding += push.bytes;
    out.emplace_back(std::move(push));
  }
}

void PrefillCore::Impl::PumpSink(Time now, NodeId id, Actions& out) {
  Sink* sink = FindSink(id);
  if (sink == nullptr || !sink->limited) return;
  sink->limited = false;
  for (auto& [request, task] : tasks_) {
    if (task->placement.has_value() && task->placement->sink() == id) Pump(now, *task, out);
  }
}

void PrefillCore::Impl::PushFenced(Time now, PushTicket ticket, ByteCount bytes,
                                   std::uint64_t checksum, Actions& out) {
  auto known = tickets_.find(ticket.value());
  if (known == tickets_.end()) return;
  const PlacementKey key = known->second;
  tickets_.erase(known);
  Task* task = FindTask(key);
  auto draining = draining_.find(key);
  Placement* placement = task != nullptr               ? &*task->placement
                         : draining != draining_.end() ? &draining->second.placement
                                                       : nullptr;
  TANDEM_CHECK(placement != nullptr);
  Sink& sink = *FindSink(placement->sink());
  const ByteCount before = placement->outstanding_bytes();
  const auto range = placement->OnFenced(now, ticket.value(), bytes);
  TANDEM_CHECK(range.has_value());
  sink.outstanding -= before - placement->outstanding_bytes();
  counters_.pushed_bytes += bytes.value();
  const NodeId sink_id = placement->sink();
  if (task == nullptr) {
    if (placement->state() == Placement::State::kReleased) FinishDraining(draining, out);
  } else {
    ++task->writes;
    const std::int32_t block_size = config_.layout.block_size;
    const std::int32_t end =
        std::min((range->first + range->count) * block_size, task->machine.num_tokens().value());
    SendTo(sink_id,
           handoff::LayerDone{key, range->layer, 1, range->first, range->count,
                              end - range->first * block_size, bytes, checksum},
           out);
    MaybeHandOff(*task, out);
  }
  PumpSink(now, sink_id, out);
  ForgetReplaced(sink_id);
}

void PrefillCore::Impl::PushFailed(Time now, PushTicket ticket, Actions& out) {
  auto known = tickets_.find(ticket.value());
  if (known == tickets_.end()) return;
  Task* task = FindTask(known->second);
  if (task == nullptr) return;  // draining: PushDrained will tell
  // The data path of this pair is broken: it must pass a probe before it is used again.
  Sink& sink = *FindSink(task->placement->sink());
  sink.usable = false;
  if (sink.connected && sink.probe_nonce == 0) sink.probe_at = now;
  DropAndPlace(now, *task, Reason::kNoSink, out);
}

void PrefillCore::Impl::PushDrained(Time now, PlacementKey key, Actions& out) {
  auto it = draining_.find(key);
  if (it == draining_.end()) return;
  Placement& placement = it->second.placement;
  const NodeId sink_id = placement.sink();
  FindSink(sink_id)->outstanding -= placement.outstanding_bytes();
  absl::erase_if(tickets_, [&](const auto& entry) { return entry.second == key; });
  placement.OnDrained(now);
  FinishDraining(it, out);
  PumpSink(now, sink_id, out);
  ForgetReplaced(sink_id);
}

// --- the hand-off

void PrefillCore::Impl::MaybeHandOff(Task& task, Actions& out) {
  if (!task.placement.has_value() || task.machine.state() != Machine::State::kComputed) return;
  if (task.placement->state() != Placement::State::kFenced || !task.placement->noted()) return;
  leases_.Remove(task.placement->key());
  SendHandOff(task, out);
}

void PrefillCore::Impl::SendHandOff(Task& task, Actions& out) {
  Placement& placement = *task.placement;
  placement.OnHandOffSent();
  handoff::HandOff message;
  message.key = placement.key();
  message.first_position = task.machine.first_position();
  message.prompt_tokens = task.machine.prompt_tokens();
  auto tokens = std::make_shared<TokenIds>(*task.machine.tokens());
  tokens->push_back(task.machine.first_token());
  message.tokens = std::move(tokens);
  message.hashes = task.machine.hashes();
  message.params = task.machine.params();
  message.first_logprob = task.machine.first_logprob();
  message.total_bytes = placement.fenced_bytes();
  message.total_layer_blocks = placement.fenced_layer_blocks();
  SendTo(placement.sink(), std::move(message), out);
}

void PrefillCore::Impl::OnReserved(Time now, NodeId from, const handoff::Reserved& message,
                                   Actions& out) {
  Task* task = FindTask(message.key);
  if (task == nullptr || task->placement->sink() != from) {
    ++counters_.stale_messages;
    if (!draining_.contains(message.key)) SendTo(from, handoff::Release{message.key, true}, out);
    return;
  }
  Placement& placement = *task->placement;
  if (placement.state() != Placement::State::kReserving) return;  // a repeat
  if (!placement.OnReserved(now, message)) {
    SendTo(from, handoff::Release{message.key, true}, out);
    DropAndPlace(now, *task, Reason::kInternal, out);
    return;
  }
  if (now >= placement.stop_at()) {  // it was under way for longer than it lasts
    NoteLeaseExpired(*task, out);
    DropAndPlace(now, *task, Reason::kExpired, out);
    return;
  }
  counters_.held_blocks += placement.held();
  leases_.Set(message.key, placement.stop_at());
  Sink& sink = *FindSink(from);
  if (sink.renew_at == kNever) sink.renew_at = now + handoff::kRenewEvery;
  SendTo(task->machine.router(), handoff::Placed{message.key, sink.hello.name}, out);
  Pump(now, *task, out);
}

void PrefillCore::Impl::OnReserveRefused(Time now, NodeId from,
                                         const handoff::ReserveRefused& message, Actions& out) {
  Task* task = FindTask(message.key);
  if (task == nullptr || task->placement->sink() != from ||
      task->placement->state() != Placement::State::kReserving) {
    ++counters_.stale_messages;
    return;
  }
  task->placement.reset();
  if (message.reason == Reason::kFull) {
    Sink& sink = *FindSink(from);
    sink.full = true;
    sink.free_blocks = message.free_blocks;
    task->machine.OnFull(task->sink_index);
  } else if (message.reason != Reason::kDraining && message.reason != Reason::kNoRouter) {
    task->machine.OnPlacementFailed(message.reason);
  }
  Place(now, *task, out);
}

void PrefillCore::Impl::OnNoted(NodeId from, const handoff::PlacementNoted& message, Actions& out) {
  Task* task = FindTask(message.key);
  if (task == nullptr || task->machine.router() != from || !task->placement->OnNoted()) {
    ++counters_.stale_messages;
    return;
  }
  MaybeHandOff(*task, out);
}

void PrefillCore::Impl::OnPlacementRefused(Time now, NodeId from,
                                           const handoff::PlacementRefused& message, Actions& out) {
  Task* task = FindTask(message.key);
  if (task == nullptr || task->machine.router() != from || !task->placement->leased()) {
    ++counters_.stale_messages;
    return;
  }
  DropAndPlace(now, *task, Reason::kNoSink, out);
}

void PrefillCore::Impl::OnJoined(Time now, NodeId from, const handoff::Joined& message,
                                 Actions& out) {
  Task* task = FindTask(message.key);
  if (task == nullptr || task->placement->sink() != from || !task->placement->OnJoined()) {
    ++counters_.stale_messages;
    return;
  }
  ++counters_.joined;
  handoff::PhaseTimes times = task->machine.times;
  times.transfer = task->placement->transfer_time();
  times.transfer_exposed = now - task->kv_done;
  times.transfer_bytes = task->placement->fenced_bytes();
  if (task->writes > 0) {
    link_fit_.Observe(task->writes, static_cast<double>(times.transfer_bytes.value()),
                      times.transfer);
  }
  times.held_tokens = TokenCount(std::min(task->placement->held() * config_.layout.block_size,
                                          task->machine.num_tokens().value()));
  returns_.Remove(message.key);
  SendTo(task->machine.router(), handoff::TransferReport{message.key, times}, out);
  EndTask(now, *task, out);
}

void PrefillCore::Impl::OnRejected(Time now, NodeId from, const handoff::Rejected& message,
                                   Actions& out) {
  Task* task = FindTask(message.key);
  if (task == nullptr || task->placement->sink() != from ||
      task->placement->state() != Placement::State::kHandingOff) {
    ++counters_.stale_messages;
    return;
  }
  DropAndPlace(now, *task, message.reason, out);
}

void PrefillCore::Impl::OnRevoke(Time now, NodeId from, const handoff::Revoke& message,
                                 Actions& out) {
  Task* task = FindTask(message.key);
  if (task != nullptr && task->placement->sink() == from) {
    if (task->placement->state() != Placement::State::kHandingOff) {
      DropAndPlace(now, *task, Reason::kExpired, out);  // releases now, or when drained
      return;
    }
    // Everything is fenced; the HandOff will be rejected.
  } else if (draining_.contains(message.key)) {
    return;  // Release follows when drained
  }
  SendTo(from, handoff::Release{message.key, true}, out);
}

}  // namespace tandem::prefill_node
