// What an operator wants to read about a request or a node: one log line and one metric each. Facts
// only; nothing depends on them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "common/base/time.h"
#include "common/base/units.h"
#include "common/handoff/events.h"

namespace tandem::router {

// A new attempt at a request came to something: its first position was delivered (`resumed`), or it
// ended before.
struct FailedOver {
  handoff::RequestId request;
  handoff::Attempt attempt;  // the new one
  std::string reason;        // why the one before ended: "died", "stuck", "preempted"
  std::string from;          // name of the node it was lost on
  std::string to_prefill;    // names; decode: empty where none was noted yet
  std::string to_decode;
  TokenCount delivered{0};  // positions, before the new attempt
  Duration pause{0};        // since the last position (or the arrival)
  bool resumed = false;
};

// The prefill node placed an attempt again, without computing again.
struct PlacedAgain {
  handoff::PlacementKey key;
  std::string from;  // the decode node of the placement before
  std::string to;
};

struct StaleMessage {
  std::string node;
  std::string_view message;  // its type; static
  handoff::RequestId request;
  bool ended = false;  // the request is over: the ordinary fate of what was on its way
};

// Promise broken: a position that came again has another token.
struct StreamDiffers {
  handoff::RequestId request;
  std::string node;
  std::int32_t positions = 0;
};

struct NodeChanged {
  enum class What : std::uint8_t { kConnected, kLost, kDraining, kStuck, kMovesAgain };
  What what = What::kConnected;
  std::string node;
  handoff::Role role = handoff::Role::kPrefill;
  std::string_view reason;    // kLost: "died", "silent", "closed", "drained"
  Duration step_running{0};   // kStuck
  std::int32_t requests = 0;  // kLost, kStuck: that move to other nodes
};

using Note = std::variant<FailedOver, PlacedAgain, StaleMessage, StreamDiffers, NodeChanged>;

}  // namespace tandem::router
