// DecodeCore: reservations, from Reserve to Joined or Free.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/kv/block_hash.h"
#include "decode_node/core/decode_impl.h"

namespace tandem::decode_node {

using handoff::NodeId;
using handoff::PlacementKey;
using handoff::Reason;

DecodeCore::Impl::Reservation* DecodeCore::Impl::Find(const PlacementKey& key) {
  auto it = reservations_.find(key);
  return it == reservations_.end() ? nullptr : it->second.get();
}

std::vector<PlacementKey> DecodeCore::Impl::KeysOf(handoff::RequestId request) const {
  std::vector<PlacementKey> keys;
  for (auto it = reservations_.lower_bound({request, handoff::Attempt(0), handoff::Placement(0)});
       it != reservations_.end() && it->first.request == request; ++it) {
    keys.push_back(it->first);
  }
  return keys;
}

void DecodeCore::Impl::RefuseReserve(NodeId to, const PlacementKey& key, Reason reason,
                                     Actions& out) {
  ++(reason == Reason::kFull ? counters_.refused_full : counters_.refused_other);
  out.emplace_back(
      NodeNote{.what = NodeNote::What::kReserveRefused, .key = key, .peer = to, .reason = reason});
  SendTo(to, handoff::ReserveRefused{key, reason, OfferedBlocks()}, out);
}

void DecodeCore::Impl::SendReserved(Time now, Reservation& reservation, Actions& out) {
  const PlacementKey& key = reservation.machine.key();
  leases_.Set(key, now + handoff::kLease + handoff::kLeaseGrace);
  SendTo(reservation.machine.source(),
         handoff::Reserved{key, reservation.machine.blocks,
                           kv::BlockCount(reservation.machine.options().held), handoff::kLease},
         out);
}

void DecodeCore::Impl::OnReserve(Time now, NodeId from, const handoff::Reserve& message,
                                 Actions& out) {
  Source& source = sources_[from];
  const PlacementKey& key = message.key;
  if (Reservation* known = Find(key)) {
    const bool same =
        known->machine.state() == Machine::State::kReserved && known->machine.source() == from;
    if (same) {
      SendReserved(now, *known, out);
    } else {
      RefuseReserve(from, key, Reason::kStale, out);
    }
    return;
  }
  const NodeId router = RouterOf(key.request.router);
  const std::int64_t tokens = std::int64_t{message.tokens.value()};
  const std::int64_t with_headroom = tokens + std::max(message.headroom.value(), 0);
  const std::int64_t capacity =
      std::int64_t{config_.num_blocks.value()} * config_.layout.block_size;
  Reason reason = Reason::kNone;
  if (router == NodeId(0)) {
    reason = Reason::kNoRouter;
  } else if (source.gone || key.attempt == handoff::Attempt(0) ||
             key.placement == handoff::Placement(0) || tokens < 1) {
    reason = Reason::kStale;
  } else if (message.model_instance != config_.model_instance) {
    reason = Reason::kModelMismatch;
  } else if (draining()) {
    reason = Reason::kDraining;
  } else if (with_headroom > capacity || tokens > config_.max_context.value()) {
    reason = Reason::kTooLong;
  } else if (reservations_.size() >= static_cast<std::size_t>(config_.reservations_max)) {
    reason = Reason::kFull;
  }
  if (reason != Reason::kNone) {
    RefuseReserve(from, key, reason, out);
    return;
  }
  std::vector<kv::BlockId> blocks;
  if (message.hashes != nullptr) {
    cache_.Match(kv::BlockHashes(*message.hashes, config_.layout.block_size),
                 kv::BlockCount(message.tokens.value() / config_.layout.block_size), blocks);
  }
  Machine::Options options;
  options.key = key;
  options.source = from;
  options.router = router;
  options.proof = source.proof;
  options.num_layers = config_.layout.num_layers;
  options.kv_tokens = message.tokens.value();
  options.kv_blocks = config_.layout.BlocksFor(message.tokens).value();
  options.held = static_cast<std::int32_t>(blocks.size());
  options.block_bytes = config_.layout.block_bytes();
  const kv::BlockCount all =
      config_.layout.BlocksFor(TokenCount(static_cast<std::int32_t>(with_headroom)));
  const kv::BlockCount need = all - kv::BlockCount(options.held);
  if (OfferedBlocks() < need || !cache_.Allocate(need, blocks).ok()) {
    cache_.Unref(blocks);
    const kv::BlockCount wants = source.wants;
    source.wants = wants > kv::BlockCount(0) ? std::min(wants, all) : all;
    RefuseReserve(from, key, Reason::kFull, out);
    return;
  }
  ++counters_.reservations;
  counters_.held_blocks += options.held;
  ++source.reservations;
  auto reservation = std::make_unique<Reservation>(options);
  reservation->machine.blocks = std::move(blocks);
  reservation->hashes = message.hashes;
  reservation->own_numerics = source.numerics == config_.numerics;
  Reservation& entry = *reservations_.emplace(key, std::move(reservation)).first->second;
  out.emplace_back(Expect{key, from, entry.machine.blocks, kv::BlockCount(options.held)});
  SendReserved(now, entry, out);
}

void DecodeCore::Impl::OnRenew(Time now, NodeId from, const handoff::Renew& message, Actions& out) {
  handoff::RenewAnswer answer;
  for (const PlacementKey& key : message.live) {
    const Reservation* reservation = Find(key);
    if (reservation != nullptr && reservation->machine.source() == from &&
        reservation->machine.state() == Machine::State::kReserved) {
      leases_.Set(key, now + handoff::kLease + handoff::kLeaseGrace);
    } else {
      answer.gone.push_back(key);
    }
  }
  SendTo(from, std::move(answer), out);
}

void DecodeCore::Impl::DataArrived(Time now, const PlacementKey& key) {
  const Reservation* reservation = Find(key);
  if (reservation != nullptr && reservation->machine.state() == Machine::State::kReserved) {
    leases_.Set(key, now + handoff::kLease + handoff::kLeaseGrace);
  }
}

void DecodeCore::Impl::OnLayerDone(Time, NodeId from, const handoff::LayerDone& message,
                                   Actions& out) {
  Reservation* reservation = Find(message.key);
  if (reservation == nullptr || reservation->machine.source() != from) {
    ++counters_.stale_messages;
    return;
  }
  switch (reservation->machine.OnLayerDone(message)) {
    case Machine::Announced::kStale:
      ++counters_.stale_messages;
      return;
    case Machine::Announced::kCorrupt:
      ++counters_.corrupt;
      Quarantine(*reservation, Reason::kCorrupt, out);
      return;
    case Machine::Announced::kVerify:
      break;
  }
  const auto first = reservation->machine.blocks.begin() + message.first_block;
  Verify verify{VerifyTicket(next_ticket_++), from, message,
                std::vector<kv::BlockId>(first, first + message.num_blocks)};
  verifying_.emplace(verify.ticket.value(), std::pair(message.key, message));
  out.emplace_back(std::move(verify));
}

void DecodeCore::Impl::LayerVerified(Time, VerifyTicket ticket, bool ok, Actions& out) {
  auto it = verifying_.find(ticket.value());
  if (it == verifying_.end()) return;
  const auto [key, done] = std::move(it->second);
  verifying_.erase(it);
  Reservation* reservation = Find(key);
  if (reservation == nullptr || reservation->machine.state() != Machine::State::kReserved) return;
  if (!ok) {
    ++counters_.corrupt;
    Quarantine(*reservation, Reason::kCorrupt, out);
    return;
  }
  reservation->machine.OnVerified(done);
  if (auto message = reservation->machine.TakeReadyHandOff()) {
    SendTo(reservation->machine.source(), handoff::Joined{key}, out);
    Join(*message, *reservation, out);
  }
}

void DecodeCore::Impl::OnHandOff(Time, NodeId from, const handoff::HandOff& message, Actions& out) {
  Reservation* reservation = Find(message.key);
  if (reservation == nullptr || reservation->machine.source() != from) {
    ++counters_.rejected;
    SendTo(from, handoff::Rejected{message.key, Reason::kStale}, out);
    return;
  }
  switch (reservation->machine.OnHandOff(message)) {
    case Machine::Join::kWait:
      return;
    case Machine::Join::kRepeat:
      SendTo(from, handoff::Joined{message.key}, out);
      return;
    case Machine::Join::kJoin:
      SendTo(from, handoff::Joined{message.key}, out);
      Join(message, *reservation, out);
      return;
    case Machine::Join::kReject:
      break;
  }
  ++counters_.rejected;
  if (reservation->machine.state() == Machine::State::kReserved) {
    ++counters_.corrupt;
    SendTo(from, handoff::Rejected{message.key, Reason::kCorrupt}, out);
    Quarantine(*reservation, Reason::kCorrupt, out);
  } else {
    SendTo(from, handoff::Rejected{message.key, reservation->reason}, out);
  }
}

// No verification of a placement that ended is waited for: its data may never come.
void DecodeCore::Impl::ForgetVerifies(const PlacementKey& key) {
  absl::erase_if(verifying_, [&](const auto& entry) { return entry.second.first == key; });
}

// Reserved → Quarantined, or on to Free when nothing can write any more.
void DecodeCore::Impl::Quarantine(Reservation& reservation, Reason reason, Actions& out) {
  Machine& machine = reservation.machine;
  const PlacementKey key = machine.key();
  if (machine.waiting()) {
    ++counters_.rejected;
    SendTo(machine.source(), handoff::Rejected{key, reason}, out);
  }
  machine.Quarantine();
  reservation.reason = reason;
  ++counters_.quarantines;
  out.emplace_back(NodeNote{.what = NodeNote::What::kQuarantined,
                            .key = key,
                            .peer = machine.source(),
                            .reason = reason});
  leases_.Remove(key);
  ForgetVerifies(key);
  // Nobody writes what was held already; the rest waits for the proof.
  const auto held = static_cast<std::size_t>(machine.options().held);
  cache_.Unref(std::span(machine.blocks).first(held));
  machine.blocks.erase(machine.blocks.begin(),
                       machine.blocks.begin() + static_cast<std::ptrdiff_t>(held));
  for (kv::BlockId block : machine.blocks) cache_.Quarantine(block);
  out.emplace_back(StopExpecting{key, machine.source()});
  if (sources_[machine.source()].gone && machine.OnWriterGone()) {
    FreeQuarantined(reservation);
    return;
  }
  SendRevoke(reservation, out);
}

void DecodeCore::Impl::SendRevoke(Reservation& reservation, Actions& out) {
  Machine& machine = reservation.machine;
  if (machine.revoke_sent || !Connected(machine.source())) return;
  machine.revoke_sent = true;
  ++counters_.revokes;
  SendTo(machine.source(), handoff::Revoke{machine.key()}, out);
}

void DecodeCore::Impl::FreeQuarantined(Reservation& reservation) {
  for (kv::BlockId block : reservation.machine.blocks) cache_.EndQuarantine(block);
  Forget(reservation);
}

void DecodeCore::Impl::Forget(Reservation& reservation) {
  const NodeId source = reservation.machine.source();
  reservations_.erase(PlacementKey(reservation.machine.key()));
  auto it = sources_.find(source);
  if (--it->second.reservations == 0 && !it->second.connected) sources_.erase(it);
}

void DecodeCore::Impl::OnRelease(Time, NodeId from, const handoff::Release& message, Actions& out) {
  Reservation* reservation = Find(message.key);
  if (reservation == nullptr || reservation->machine.source() != from || !message.drained) {
    ++counters_.stale_messages;
    return;
  }
  Machine& machine = reservation->machine;
  const Machine::State before = machine.state();
  const bool waited = machine.waiting();
  if (machine.OnReleased()) {
    if (before == Machine::State::kQuarantined) {
      FreeQuarantined(*reservation);
      return;
    }
    if (waited) {
      ++counters_.rejected;
      SendTo(from, handoff::Rejected{message.key, Reason::kStale}, out);
    }
    leases_.Remove(message.key);
    ForgetVerifies(message.key);
    out.emplace_back(StopExpecting{message.key, from});
    cache_.Unref(machine.blocks);
    Forget(*reservation);
  } else if (before == Machine::State::kReserved) {
    Quarantine(*reservation, Reason::kStale, out);  // our own receives may be outstanding
  } else {
    ++counters_.stale_messages;
  }
}

void DecodeCore::Impl::SinkDrained(const PlacementKey& key) {
  Reservation* reservation = Find(key);
  if (reservation != nullptr && reservation->machine.OnSinkDrained()) {
    FreeQuarantined(*reservation);
  }
}

void DecodeCore::Impl::WriterGone(Time, NodeId id, Actions& out) {
  auto it = sources_.find(id);
  if (it == sources_.end()) return;
  it->second.gone = true;
  for (const PlacementKey& key :
       KeysWhere([&](const Reservation& r) { return r.machine.source() == id; })) {
    Reservation& reservation = *Find(key);
    if (reservation.machine.state() == Machine::State::kReserved) {
      Quarantine(reservation, Reason::kStale, out);  // and free, where that is the proof
    } else if (reservation.machine.OnWriterGone()) {
      FreeQuarantined(reservation);
    }
  }
}

}  // namespace tandem::decode_node
