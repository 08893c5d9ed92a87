// The bytes of a probe transfer, and where they go. A sink keeps a test region for them beside its
// arena; a probe writes one of the region's slots, chosen by its nonce, so that sources which probe
// at the same time rarely meet (a meeting costs one probe, which is tried again).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/random.h"
#include "common/handoff/ids.h"
#include "kv_transfer/transfer.h"

namespace tandem::worker {

inline constexpr transfer::RegionId kArenaRegion{0};
inline constexpr transfer::RegionId kProbeRegion{1};
inline constexpr std::size_t kProbeBytes = 4096;
inline constexpr std::size_t kProbeSlots = 64;

inline std::size_t ProbeSlot(handoff::Incarnation source, std::uint64_t nonce) {
  return Mix64(source.value() ^ Mix64(nonce)) % kProbeSlots;
}

// One stream of probe writes a source.
inline transfer::Ticket ProbeTicket(handoff::Incarnation source) {
  return {.scope = source.value(), .number = 0, .part = 0};
}

// The stream of a placement's writes. Its part is never 0: attempts count from 1.
inline transfer::Ticket TicketOf(const handoff::PlacementKey& key) {
  return {.scope = key.request.router.value(),
          .number = key.request.number,
          .part = std::uint64_t{key.attempt.value()} << 32 | key.placement.value()};
}

void FillProbe(handoff::Incarnation source, std::uint64_t nonce, std::span<std::byte> out);
std::uint64_t ProbeChecksum(std::span<const std::byte> bytes);

}  // namespace tandem::worker
