// Finds what a core asked its shell to do, in the actions that it appended.
#pragma once

#include <optional>
#include <variant>

#include "common/handoff/events.h"

namespace tandem::testing {

// The last action of one kind; nullptr: none.
template <typename A, typename Actions>
const A* LastAction(const Actions& actions) {
  for (auto it = actions.rbegin(); it != actions.rend(); ++it) {
    if (const A* action = std::get_if<A>(&*it)) return action;
  }
  return nullptr;
}

// The last message of one kind that was sent, to `to` or to anybody; nullptr: none.
template <typename M, typename Actions>
const M* LastSent(const Actions& actions, std::optional<handoff::NodeId> to = std::nullopt) {
  for (auto it = actions.rbegin(); it != actions.rend(); ++it) {
    const auto* send = std::get_if<handoff::Send>(&*it);
    if (send == nullptr || (to && send->to != *to)) continue;
    if (const M* message = std::get_if<M>(&send->message)) return message;
  }
  return nullptr;
}

}  // namespace tandem::testing
