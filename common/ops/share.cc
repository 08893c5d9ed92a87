#include "common/ops/share.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::ops {
namespace {

constexpr int kBits = 24;  // of a unit's number
static_assert(Claims::kMaxUnits == (std::int64_t{1} << kBits) - 1);
// A thread takes an eighth of what it has left: few claims at first, and single units at the end.
constexpr std::int64_t kClaims = 8;
constexpr int kMaxVictims = 8;  // looked at by a thread that has nothing left

std::int64_t SomeOf(std::int64_t units) { return std::max<std::int64_t>(1, units / kClaims); }

bool IsEmpty(Range range) { return range.begin >= range.end; }

}  // namespace

Claims::Claims(Share share, std::int64_t units) : share_(share), units_(units) {
  TANDEM_CHECK(units >= 0 && units <= kMaxUnits);
  if (share.count() > 1) work_ = ++share.split->slots_[share.index].work;
}

bool Claims::Next(Range* units) {
  if (share_.count() == 1) {
    *units = {0, units_};
    units_ = 0;
    return units->end > 0;
  }
  return TakeOwn(units) || Steal(units);
}

Range Claims::Initial(int index) const {
  const int count = share_.count();
  return {units_ * index / count, units_ * (index + 1) / count};
}

Claims::Left Claims::LeftOf(std::uint64_t word, int index) const {
  const auto work = static_cast<std::uint16_t>(word >> 2 * kBits);
  const Range range{static_cast<std::int64_t>(word >> kBits & kMaxUnits),
                    static_cast<std::int64_t>(word & kMaxUnits)};
  if (work == work_) return {range, true};
  // Done with the work before and not at this one yet: anybody may divide its part of this one.
  // Else it is behind with other works, or all of this one is taken and it went on.
  const bool next = work == static_cast<std::uint16_t>(work_ - 1) && IsEmpty(range);
  return {next ? Initial(index) : Range{0, 0}, next};
}

bool Claims::Replace(int index, std::uint64_t* word, Range range) const {
  const std::uint64_t desired = std::uint64_t{work_} << 2 * kBits |
                                static_cast<std::uint64_t>(range.begin) << kBits |
                                static_cast<std::uint64_t>(range.end);
  // What is computed is published by the pool's barrier, not by this word.
  return share_.split->slots_[index].left.compare_exchange_weak(*word, desired,
                                                                std::memory_order_relaxed);
}

bool Claims::TakeOwn(Range* units) {
  std::uint64_t word = share_.split->slots_[share_.index].left.load(std::memory_order_relaxed);
  for (;;) {
    const Left left = LeftOf(word, share_.index);
    if (!left.here) return false;
    const std::int64_t length = left.range.end - left.range.begin;
    const std::int64_t middle = left.range.begin + std::min(length, SomeOf(length));
    // Also where nothing is left: it says that this thread has come to this work.
    if (!Replace(share_.index, &word, {middle, left.range.end})) continue;
    *units = {left.range.begin, middle};
    return length > 0;
  }
}

bool Claims::Steal(Range* units) {
  const int count = share_.count();
  for (int i = 1; i < count && i <= kMaxVictims; ++i) {
    if (StealFrom((share_.index + i) % count, units)) return true;
  }
  return false;
}

// Half of what is left there, of which all but the first few units are this thread's own now: there
// for others to take in turn.
bool Claims::StealFrom(int index, Range* units) {
  std::uint64_t word = share_.split->slots_[index].left.load(std::memory_order_relaxed);
  for (;;) {
    const Left left = LeftOf(word, index);
    if (IsEmpty(left.range)) return false;
    const std::int64_t middle = left.range.begin + (left.range.end - left.range.begin) / 2;
    if (!Replace(index, &word, {left.range.begin, middle})) continue;
    *units = {middle, left.range.end};
    break;
  }
  std::uint64_t own = share_.split->slots_[share_.index].left.load(std::memory_order_relaxed);
  const std::int64_t some = units->begin + SomeOf(units->end - units->begin);
  while (LeftOf(own, share_.index).here) {
    if (!Replace(share_.index, &own, {some, units->end})) continue;
    units->end = some;
    break;
  }
  return true;
}

}  // namespace tandem::ops
