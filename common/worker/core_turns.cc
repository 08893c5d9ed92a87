#include "common/worker/core_turns.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <utility>

namespace tandem::worker {

using scheduler::TurnRole;

namespace {

// How often one that waits looks whether who computes still lives.
constexpr Duration kLookEvery = std::chrono::milliseconds(5);
// A decode member that has said nothing for so long decodes nothing.
constexpr Duration kIdleAfter = std::chrono::milliseconds(200);

// Not private to the process, unlike std::atomic's.
void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t value, Duration timeout) {
  const timespec limit{.tv_sec = 0, .tv_nsec = static_cast<long>(timeout.count())};
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, value, &limit, nullptr,
            0);
}

void FutexWake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr,
            nullptr, 0);
}

// The steady clock is one for all processes of a host.
std::int64_t Nanos(Time t) { return t.time_since_epoch().count(); }
Time FromNanos(std::int64_t ns) { return Time(Duration(ns)); }

// Of a turn word: the holder's slot; kSlots: nobody.
std::size_t HolderOf(std::uint64_t turn) {
  const std::uint64_t low = turn & 0xff;
  return low == 0 || low > CoreGroup::kSlots ? CoreGroup::kSlots : low - 1;
}
std::uint64_t NumberOf(std::uint64_t turn) { return turn >> 8; }
std::uint64_t TurnOf(std::uint64_t number, std::size_t slot) { return number << 8 | (slot + 1); }
std::uint64_t FreeTurn(std::uint64_t number) { return number << 8; }

}  // namespace

// The members as the policy sees them; without memory of its own.
struct CoreTurns::Members {
  std::array<scheduler::TurnMember, CoreGroup::kSlots> member;
  std::array<std::size_t, CoreGroup::kSlots> slot;  // of each member
  std::size_t count = 0;
  std::span<const scheduler::TurnMember> all() const { return std::span(member).first(count); }
};

StatusOr<std::unique_ptr<CoreTurns>> CoreTurns::Join(const std::string& group,
                                                     const Options& options) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<CoreGroup> joined, CoreGroup::Join(group));
  return std::unique_ptr<CoreTurns>(new CoreTurns(std::move(joined), options));
}

CoreTurns::CoreTurns(std::unique_ptr<CoreGroup> group, const Options& options)
    : group_(std::move(group)), options_(options) {
  own().role = static_cast<std::uint32_t>(options_.role);
}

CoreTurns::~CoreTurns() { Give(); }

CoreTurns::Members CoreTurns::Look() const {
  Members members;
  for (std::size_t i = 0; i < CoreGroup::kSlots; ++i) {
    const Slot& slot = group_->slot(i);
    const std::uint32_t role = slot.role.load(std::memory_order_relaxed);
    if (role == 0) continue;
    members.slot[members.count] = i;
    members.member[members.count++] = {.role = static_cast<TurnRole>(role),
                                       .waiting = slot.waiting.load() != 0,
                                       .ticket = slot.ticket,
                                       .last_turn = slot.last_turn,
                                       .slice = Duration(slot.slice_ns)};
  }
  return members;
}

void CoreTurns::Publish(Time now, Duration expected) {
  own().expected_ns = expected.count();
  own().pulse_ns = Nanos(now);
}

// --- the engine's side

Duration CoreTurns::Take(Duration expected) {
  const Time now = SteadyNow();
  if (options_.role == TurnRole::kDecode) {
    // Nobody computed since the last step: this is its own pace. An idle spell is none.
    if (given_turn_ != 0 && group_->page().turn == given_turn_ && now - given_at_ < 4 * expected) {
      pause_ += (now - given_at_ - pause_) / 8;
    }
    own().slice_ns =
        scheduler::SliceFor({.step = expected, .pause = pause_}, options_.itl_target).count();
    Publish(now, expected);
  } else {
    piece_ = last_piece_ = expected / std::max<std::int64_t>(pieces_per_step_, 1);
    Publish(now, piece_);
  }
  return Await(now);
}

Duration CoreTurns::GiveWay() {
  if (options_.role != TurnRole::kPrefill) return Duration(0);
  const Time now = SteadyNow();
  const Duration piece = std::exchange(last_piece_, now - piece_began_);
  piece_ = std::max(piece, last_piece_);
  piece_began_ = now;
  ++pieces_;
  Publish(now, piece_);
  const std::uint64_t turn = group_->page().turn;
  if (HolderOf(turn) == group_->own()) {
    const Duration held = now - FromNanos(group_->page().since_ns);
    if (!scheduler::GivesWay(Look().all(), held, piece_)) return Duration(0);
    if (!GiveNext(turn, now)) return Duration(0);
    ++given_way_;
  }
  return Await(now);
}

void CoreTurns::Give() {
  const Time now = SteadyNow();
  given_at_ = now;
  pieces_per_step_ = std::exchange(pieces_, 0) + 1;
  std::uint64_t turn = group_->page().turn;
  if (HolderOf(turn) != group_->own() || GiveNext(turn, now)) {
    given_turn_ = 0;
    return;
  }
  given_turn_ = FreeTurn(NumberOf(turn) + 1);
  if (!group_->page().turn.compare_exchange_strong(turn, given_turn_)) return;
  // Who began to wait before the turn was free may have seen it taken, and sleeps.
  turn = given_turn_;
  GiveNext(turn, now);
}

// --- turns

// Waits until the turn is our own.
Duration CoreTurns::Await(Time since) {
  Slot& slot = own();
  slot.ticket = group_->page().next_ticket.fetch_add(1) + 1;
  Time now = since;
  while (true) {
    const std::uint32_t bell = slot.bell;
    slot.waiting = 1;  // again and again: who passed us over took us for absent
    const std::uint64_t turn = group_->page().turn;
    const std::size_t holder = HolderOf(turn);
    if (holder == group_->own()) break;
    if (holder == CoreGroup::kSlots) {
      GiveNext(turn, now);
      continue;
    }
    FutexWait(slot.bell, bell, kLookEvery);
    now = SteadyNow();
    if (group_->page().turn == turn) PassOver(turn, now);
  }
  slot.waiting = 0;
  now = SteadyNow();
  piece_began_ = now;
  slot.pulse_ns = Nanos(now);
  ++turns_;
  waited_ns_ += (now - since).count();
  return now - since;
}

// Takes `turn` from its holder when that has ended, or has held it for too long.
void CoreTurns::PassOver(std::uint64_t turn, Time now) {
  const std::size_t holder = HolderOf(turn);
  Slot& slot = group_->slot(holder);
  if (group_->Alive(holder)) {
    const Time since = FromNanos(std::max(slot.pulse_ns.load(), group_->page().since_ns.load()));
    if (now - since <= scheduler::TurnPatience(Duration(slot.expected_ns))) return;
  }
  slot.waiting = 0;
  ++passed_over_;
  GiveNext(turn, now);
}

// Gives `turn` to whoever is next; false: nobody waits, or the turn has changed meanwhile.
bool CoreTurns::GiveNext(std::uint64_t turn, Time now) {
  while (true) {
    const Members members = Look();
    const auto next = scheduler::NextTurn(members.all());
    if (!next.has_value()) return false;
    const std::size_t to = members.slot[*next];
    Slot& slot = group_->slot(to);
    if (!group_->Alive(to)) {
      slot.waiting = 0;
      ++passed_over_;
      continue;
    }
    const std::uint64_t number = NumberOf(turn) + 1;
    if (!group_->page().turn.compare_exchange_strong(turn, TurnOf(number, to))) return false;
    group_->page().since_ns = Nanos(now);
    slot.last_turn = number;
    if (to != group_->own()) {
      ++slot.bell;
      FutexWake(slot.bell);
    }
    return true;
  }
}

// --- what others ask

Duration CoreTurns::slice() const {
  if (options_.role == TurnRole::kDecode) return Duration(own().slice_ns);
  const Time now = SteadyNow();
  Duration shortest(0);
  for (std::size_t i = 0; i < CoreGroup::kSlots; ++i) {
    const Slot& slot = group_->slot(i);
    if (slot.role != static_cast<std::uint32_t>(TurnRole::kDecode)) continue;
    const Duration step(slot.expected_ns);
    if (now - FromNanos(slot.pulse_ns) > std::max(kIdleAfter, 4 * step)) continue;
    const Duration slice(slot.slice_ns);
    if (shortest == Duration(0) || slice < shortest) shortest = slice;
  }
  return shortest;
}

CoreTurns::Stats CoreTurns::stats() const {
  return {.turns = turns_,
          .given_way = given_way_,
          .passed_over = passed_over_,
          .waited = Duration(waited_ns_),
          .slice = slice()};
}

}  // namespace tandem::worker
