// Who computes next where several engines share the same cores, and for how long.
//
// One engine computes at a time, with all its threads: a step that is preempted on one core holds
// all its other threads at the next barrier. Decoding goes first, one step at a time; between two
// of its steps one prefill engine computes for a *slice*, whose length the ITL target gives:
//
//   decode │step│          │step│          │step│  idle …
//   prefill      ‹─ slice ─›    ‹─ slice ─›      ‹─ all of it
//
// Each engine publishes what it knows of itself in a TurnMember; these functions are the whole
// rule. Pure: the caller reads clocks and waits (common/worker/core_turns.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/base/time.h"

namespace tandem::scheduler {

enum class TurnRole : std::uint8_t { kDecode = 1, kPrefill = 2 };

struct TurnMember {
  TurnRole role = TurnRole::kDecode;
  bool waiting = false;         // for a turn
  std::uint64_t ticket = 0;     // of those waiting: smaller came earlier
  std::uint64_t last_turn = 0;  // number of its last turn, which grow over all members; 0: none
  Duration slice{0};            // decode: what prefill may take between two of its steps
};

// Index of the waiting member whose turn it is now; nothing when none waits. In this order, the
// earliest first among equals:
//   1. decode members that had no turn since prefill last had one,
//   2. prefill members,
//   3. other decode members.
// So between two steps of one decode member there is at most one slice, and every member waits for
// one turn of each other member at most, a prefill member for one of each beside it more.
std::optional<std::size_t> NextTurn(std::span<const TurnMember> members);

// Whether a prefill engine that has computed for `held`, and is at a place where it may stop, the
// next one `piece` away, gives its turn away now: a decode member waits, and stopping here comes
// nearer to the slice than stopping there. Without a waiting one it goes on.
bool GivesWay(std::span<const TurnMember> members, Duration held, Duration piece);

struct StepRhythm {
  Duration step{0};   // predicted length of its next step; zero: not known yet
  Duration pause{0};  // from the end of a step to the wish for the next, when nothing else computes
};

// The slice that a decode member of that rhythm leaves to prefill, so that its steps begin `target`
// apart, less a twentieth for what the operating system adds; zero: 1.75 times as far apart as they
// would undisturbed, which leaves as much again for pieces, cold caches and noise before it is
// twice. At least an eighth of the step, however small the target: prompts must end. Zero for a
// rhythm that is not known yet.
Duration SliceFor(const StepRhythm& rhythm, Duration target);

// For how long a member may hold its turn while others wait, when it said that it would need
// `expected` to its end (prefill: to the next place where it may stop); zero: it did not know. One
// that takes longer is stopped or hangs, and others go on without it.
Duration TurnPatience(Duration expected);

}  // namespace tandem::scheduler
