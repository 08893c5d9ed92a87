// Who and which try: the names that every message of the hand-off carries.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <utility>

#include "common/base/strong_int.h"

namespace tandem::handoff {

struct IncarnationTag {};
struct AttemptTag {};
struct PlacementTag {};
struct NodeTag {};

// One life of a process: random, never 0 in a live one.
using Incarnation = StrongInt<IncarnationTag, std::uint64_t>;
// One numbered try at a request, made by the router; from 1, only grows.
using Attempt = StrongInt<AttemptTag, std::uint32_t>;
// One numbered choice of a sink inside an attempt, made by the source; from 1, never used twice.
using Placement = StrongInt<PlacementTag, std::uint32_t>;
inline constexpr Placement kAllPlacements{std::numeric_limits<std::uint32_t>::max()};
// A peer as one process knows it: a local index, never on the wire.
using NodeId = StrongInt<NodeTag, std::int32_t>;

struct RequestId {
  Incarnation router;
  std::uint64_t number = 0;
  auto operator<=>(const RequestId&) const = default;
};

// What makes a message current or stale.
struct PlacementKey {
  RequestId request;
  Attempt attempt{0};
  Placement placement{0};
  auto operator<=>(const PlacementKey&) const = default;
};

template <typename H>
H AbslHashValue(H state, const RequestId& id) {
  return H::combine(std::move(state), id.router, id.number);
}
template <typename H>
H AbslHashValue(H state, const PlacementKey& key) {
  return H::combine(std::move(state), key.request, key.attempt, key.placement);
}

}  // namespace tandem::handoff
