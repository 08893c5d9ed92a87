// What an operator wants to read about a placement at a node: one log line each, beside the counter
// in the node's statistics. An action of both node cores; facts only, nothing depends on them.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "common/handoff/ids.h"
#include "common/handoff/messages.h"

namespace tandem::handoff {

struct NodeNote {
  enum class What : std::uint8_t {
    kPlacedAgain,     // source: on another sink, without computing again
    kLeaseExpired,    // source: it stops writing; the sink's own expiry is a quarantine
    kReserveRefused,  // sink
    kQuarantined,     // sink: given up, its blocks wait for the proof
    kStaleMessage,    // either
  };
  What what = What::kStaleMessage;
  PlacementKey key;
  NodeId peer{0};
  Reason reason = Reason::kNone;
  std::string_view message;  // kStaleMessage: its type; static
};

// The placement that a message is about; zero where it is about none.
inline PlacementKey PlacementOf(const Message& message) {
  return std::visit(
      [](const auto& m) -> PlacementKey {
        if constexpr (requires { m.key.placement; }) {
          return m.key;
        } else if constexpr (requires {
                               m.request.router;
                               m.attempt;
                             }) {
          return {m.request, m.attempt, Placement(0)};
        } else {
          return {};
        }
      },
      message);
}

// Of a message from `peer` that its node found stale.
inline NodeNote StaleNote(NodeId peer, const Message& message) {
  return {.what = NodeNote::What::kStaleMessage,
          .key = PlacementOf(message),
          .peer = peer,
          .message = MessageName(message)};
}

}  // namespace tandem::handoff
