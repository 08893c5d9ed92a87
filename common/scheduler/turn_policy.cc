#include "common/scheduler/turn_policy.h"

#include <algorithm>
#include <chrono>
#include <tuple>

namespace tandem::scheduler {

std::optional<std::size_t> NextTurn(std::span<const TurnMember> members) {
  std::uint64_t last_slice = 0;
  for (const TurnMember& member : members) {
    if (member.role == TurnRole::kPrefill) last_slice = std::max(last_slice, member.last_turn);
  }
  const auto rank = [&](std::size_t i) {
    const TurnMember& member = members[i];
    int order = 1;
    if (member.role == TurnRole::kDecode) order = member.last_turn <= last_slice ? 0 : 2;
    return std::tuple(order, member.ticket);
  };
  std::optional<std::size_t> next;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i].waiting && (!next.has_value() || rank(i) < rank(*next))) next = i;
  }
  return next;
}

bool GivesWay(std::span<const TurnMember> members, Duration held, Duration piece) {
  Duration slice = Duration::max();
  for (const TurnMember& member : members) {
    if (member.waiting && member.role == TurnRole::kDecode) slice = std::min(slice, member.slice);
  }
  return slice != Duration::max() && held + piece / 2 >= slice;
}

Duration SliceFor(const StepRhythm& rhythm, Duration target) {
  if (rhythm.step <= Duration(0)) return Duration(0);
  const Duration distance =
      target == Duration(0) ? (rhythm.step + rhythm.pause) * 7 / 4 : target - target / 20;
  return std::max(distance - rhythm.step, rhythm.step / 8);
}

Duration TurnPatience(Duration expected) {
  constexpr Duration kLeast = std::chrono::milliseconds(50);
  constexpr Duration kMost = std::chrono::seconds(5);
  constexpr Duration kUnknown = std::chrono::seconds(1);
  if (expected <= Duration(0)) return kUnknown;
  return kLeast + std::min(expected, kMost) * 4;
}

}  // namespace tandem::scheduler
