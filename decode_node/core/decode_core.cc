#include "decode_node/core/decode_core.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "decode_node/core/decode_impl.h"

namespace tandem::decode_node {

using handoff::NodeId;
using handoff::PlacementKey;
using handoff::Reason;

Status DecodeConfig::Validate() const {
  if (name.empty()) return InvalidArgument("name is empty");
  if (incarnation == handoff::Incarnation()) return InvalidArgument("incarnation is 0");
  TANDEM_RETURN_IF_ERROR(layout.Validate());
  if (num_blocks < kv::BlockCount(1)) return InvalidArgument("num_blocks is {}", num_blocks);
  if (step_sequences < 1) return InvalidArgument("step_sequences is {}", step_sequences);
  if (reservations_max < 1) return InvalidArgument("reservations_max is {}", reservations_max);
  return OkStatus();
}

DecodeCore::Impl::Impl(const DecodeConfig& config) : config_(config), cache_(config.num_blocks) {}

bool DecodeCore::Impl::Connected(NodeId id) const {
  auto source = sources_.find(id);
  return routers_.contains(id) || (source != sources_.end() && source->second.connected);
}

void DecodeCore::Impl::SendTo(NodeId to, handoff::Message message, Actions& out) {
  if (Connected(to)) out.emplace_back(Send{to, std::move(message)});
}

NodeId DecodeCore::Impl::RouterOf(handoff::Incarnation incarnation) const {
  for (const auto& [id, router] : routers_) {
    if (router.incarnation == incarnation) return id;
  }
  return NodeId(0);
}

void DecodeCore::Impl::RouterConnected(NodeId router, const handoff::Hello& hello) {
  routers_[router].incarnation = hello.incarnation;
}

// Everything of that router ends: it cannot cancel any more.
void DecodeCore::Impl::RouterLost(Time, NodeId router, Actions& out) {
  if (routers_.erase(router) == 0) return;
  for (const PlacementKey& key :
       KeysWhere([&](const Reservation& r) { return r.machine.router() == router; })) {
    Reservation& reservation = *Find(key);
    if (reservation.machine.state() == Machine::State::kJoined) {
      ++counters_.cancelled;
      EndSequence(reservation);
    } else if (reservation.machine.state() == Machine::State::kReserved) {
      Quarantine(reservation, Reason::kNoRouter, out);
    }
  }
}

void DecodeCore::Impl::SourceConnected(Time now, NodeId id, const handoff::Hello& hello,
                                       handoff::Proof proof, Actions& out) {
  if (Source& known = sources_[id]; known.connected) SourceLost(now, id, out);
  Source& source = sources_[id];
  source.numerics = hello.numerics;
  source.connected = true;
  source.proof = proof;
  for (const PlacementKey& key : KeysWhere([&](const Reservation& r) {
         return r.machine.source() == id && r.machine.state() == Machine::State::kQuarantined;
       })) {
    SendRevoke(*Find(key), out);
  }
}

void DecodeCore::Impl::SourceLost(Time, NodeId id, Actions& out) {
  auto it = sources_.find(id);
  if (it == sources_.end() || !it->second.connected) return;
  it->second.connected = false;
  for (const PlacementKey& key :
       KeysWhere([&](const Reservation& r) { return r.machine.source() == id; })) {
    Reservation& reservation = *Find(key);
    reservation.machine.revoke_sent = false;
    if (reservation.machine.state() == Machine::State::kReserved) {
      Quarantine(reservation, Reason::kStale, out);
    }
  }
  it = sources_.find(id);
  if (it != sources_.end() && it->second.reservations == 0) sources_.erase(it);
}

void DecodeCore::Impl::OnCancel(NodeId from, const handoff::Cancel& message, Actions& out) {
  const PlacementKey& cancelled = message.key;
  bool waits = false;
  for (const PlacementKey& key : KeysOf(cancelled.request)) {
    Reservation& reservation = *Find(key);
    if (key > cancelled || reservation.machine.router() != from) continue;
    if (reservation.machine.state() == Machine::State::kReserved) {
      ++counters_.cancelled;
      Quarantine(reservation, Reason::kStale, out);
    } else if (reservation.machine.state() == Machine::State::kJoined) {
      ++counters_.cancelled;
      if (reservation.sequence->in_step) {  // it computes until the step ends
        reservation.answer = handoff::Cancelled{cancelled};
        waits = true;
      }
      EndSequence(reservation);
    }
  }
  if (!waits) SendTo(from, handoff::Cancelled{cancelled}, out);
}

void DecodeCore::Impl::OnCredit(NodeId from, const handoff::Credit& message) {
  Reservation* reservation = Find(message.key);
  if (reservation == nullptr || reservation->machine.router() != from ||
      !reservation->sequence.has_value()) {
    ++counters_.stale_messages;
    return;
  }
  reservation->sequence->credit += message.tokens;
}

void DecodeCore::Impl::OnMessage(Time now, NodeId from, const handoff::Message& message,
                                 Actions& out) {
  const std::int64_t stale = counters_.stale_messages;
  Handle(now, from, message, out);
  if (counters_.stale_messages != stale) out.emplace_back(handoff::StaleNote(from, message));
}

void DecodeCore::Impl::Handle(Time now, NodeId from, const handoff::Message& message,
                              Actions& out) {
  auto source = sources_.find(from);
  if (routers_.contains(from)) {
    if (const auto* m = std::get_if<handoff::Cancel>(&message)) {
      OnCancel(from, *m, out);
    } else if (const auto* m = std::get_if<handoff::Credit>(&message)) {
      OnCredit(from, *m);
    } else if (const auto* m = std::get_if<handoff::Drain>(&message)) {
      BeginDrain(now, m->budget, out);
    } else if (!std::holds_alternative<handoff::Heartbeat>(message)) {
      ++counters_.stale_messages;
    }
  } else if (source != sources_.end() && source->second.connected) {
    if (const auto* m = std::get_if<handoff::Reserve>(&message)) {
      OnReserve(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::LayerDone>(&message)) {
      OnLayerDone(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::HandOff>(&message)) {
      OnHandOff(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::Release>(&message)) {
      OnRelease(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::Renew>(&message)) {
      OnRenew(now, from, *m, out);
    } else if (const auto* m = std::get_if<handoff::Probe>(&message)) {
      out.emplace_back(VerifyProbe{from, *m});
    } else if (!std::holds_alternative<handoff::Heartbeat>(message)) {
      ++counters_.stale_messages;
    }
  } else {
    ++counters_.stale_messages;
  }
}

void DecodeCore::Impl::ProbeVerified(NodeId source, std::uint64_t nonce, bool ok, Actions& out) {
  SendTo(source, handoff::Probed{nonce, ok}, out);
}

void DecodeCore::Impl::OnTime(Time now, Actions& out) {
  while (auto key = leases_.Pop(now)) {
    Reservation* reservation = Find(*key);
    TANDEM_CHECK(reservation != nullptr &&
                 reservation->machine.state() == Machine::State::kReserved);
    ++counters_.leases_expired;
    Quarantine(*reservation, Reason::kExpired, out);
  }
  if (draining() && !moved_ && drain_end_ <= now) MoveAll(out);
}

Time DecodeCore::Impl::NextDeadline() const {
  return draining() && !moved_ ? std::min(leases_.next(), drain_end_) : leases_.next();
}

// --- draining

void DecodeCore::Impl::BeginDrain(Time now, Duration budget, Actions& out) {
  const bool first = !draining();
  drain_end_ =
      std::min(drain_end_, now + std::clamp(budget, Duration(0), handoff::kDrainBudgetMax));
  if (first) {  // peers choose others from now on, and know that the end will be in order
    for (const auto& [id, router] : routers_) SendTo(id, MakeHeartbeat(now, id), out);
    for (const auto& [id, source] : sources_) SendTo(id, MakeHeartbeat(now, id), out);
  }
  if (drain_end_ <= now) MoveAll(out);
}

void DecodeCore::Impl::MoveAll(Actions& out) {
  moved_ = true;
  for (const PlacementKey& key : KeysWhere([](const Reservation&) { return true; })) {
    Reservation& reservation = *Find(key);
    if (reservation.machine.state() == Machine::State::kJoined) {
      FailSequence(reservation, Reason::kDraining, out);
    } else if (reservation.machine.state() == Machine::State::kReserved) {
      Quarantine(reservation, Reason::kDraining, out);
    }
  }
}

// A stopped writer may hold quarantined blocks for long; nothing of ours waits for them.
bool DecodeCore::Impl::drained() const {
  if (!draining() || !remainders_.empty()) return false;
  for (const auto& [key, reservation] : reservations_) {
    if (reservation->machine.state() != Machine::State::kQuarantined) return false;
  }
  return true;
}

kv::BlockCount DecodeCore::Impl::OfferedBlocks() const {
  const bool places = reservations_.size() < static_cast<std::size_t>(config_.reservations_max);
  return places ? std::max(cache_.counts().available() - GrowthReserve(), kv::BlockCount(0))
                : kv::BlockCount(0);
}

void DecodeCore::Impl::TellOfRoom(Time now, Actions& out) {
  for (auto& [id, source] : sources_) {
    if (source.wants == kv::BlockCount(0) || OfferedBlocks() < source.wants) continue;
    source.wants = kv::BlockCount(0);
    SendTo(id, MakeHeartbeat(now, id), out);
  }
}

handoff::Heartbeat DecodeCore::Impl::MakeHeartbeat(Time now, NodeId to) {
  handoff::Heartbeat heartbeat;
  heartbeat.free_blocks = OfferedBlocks();
  heartbeat.draining = draining();
  auto router = routers_.find(to);
  if (router == routers_.end()) return heartbeat;
  heartbeat.running = static_cast<std::uint32_t>(sequences_.size());
  heartbeat.queued = static_cast<std::uint32_t>(leases_.size());
  heartbeat.quarantined_blocks = cache_.counts().quarantined;
  heartbeat.step_number = step_.number;
  if (step_.running) heartbeat.step_running_for = now - step_.started;
  heartbeat.fit = {fit_.time().fixed_s, fit_.time().per_token_s, fit_.time().per_pair_s};
  router->second.cache_cursor = cache_.Changes(router->second.cache_cursor, 1024,
                                               heartbeat.cached_added, heartbeat.cached_removed);
  return heartbeat;
}

scheduler::StepProgress DecodeCore::Impl::progress(Time now) const {
  if (!step_.running) return {.number = step_.number};
  return {.number = step_.number,
          .running_for = std::max(now - step_.started, Duration(1)),
          .stuck_after = step_.stuck_after};
}

DecodeStats DecodeCore::Impl::stats() const {
  DecodeStats stats = counters_;
  stats.blocks = cache_.counts();
  stats.routers = static_cast<std::int32_t>(routers_.size());
  for (const auto& [id, source] : sources_) stats.sources += source.connected ? 1 : 0;
  for (const auto& [key, reservation] : reservations_) {
    switch (reservation->machine.state()) {
      case Machine::State::kReserved:
        ++stats.reserved;
        break;
      case Machine::State::kJoined:
        ++stats.sequences;
        break;
      case Machine::State::kQuarantined:
        ++stats.quarantined;
        break;
      case Machine::State::kFree:
        break;
    }
    const auto& sequence = reservation->sequence;
    if (sequence.has_value() && !sequence->in_step) ++stats.stalled;
  }
  if (!step_.running) stats.stalled = 0;
  stats.sequences += static_cast<std::int32_t>(remainders_.size());
  stats.leases = static_cast<std::int32_t>(leases_.size());
  stats.step_fit = fit_.quality();
  stats.verifying = static_cast<std::int32_t>(verifying_.size());
  return stats;
}

}  // namespace tandem::decode_node
