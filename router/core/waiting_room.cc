#include "router/core/waiting_room.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/random.h"

namespace tandem::router {
namespace {

constexpr Duration kBackOffFirst = std::chrono::milliseconds(100);
constexpr std::int32_t kDoublingsMax = 6;

}  // namespace

Duration BackOff(handoff::RequestId request, handoff::Attempt attempt, std::int32_t failures) {
  TANDEM_CHECK(failures > 0);
  const Duration whole = kBackOffFirst * (1 << std::min(failures - 1, kDoublingsMax));
  SplitMix64 random(Mix64(request.router.value() ^ Mix64(request.number)) ^ attempt.value());
  const auto half = static_cast<std::uint64_t>(whole.count() / 2);
  return Duration(static_cast<std::int64_t>(half + random.Below(half + 1)));
}

void WaitingRoom::AddRetry(std::uint64_t number, Time now, Time at) {
  if (at <= now) {
    again_.insert(number);
  } else {
    resting_.Set(number, at);
  }
}

void WaitingRoom::SetAside(std::uint64_t number) {
  TANDEM_CHECK(again_.erase(number) == 1);
  aside_.insert(number);
}

void WaitingRoom::Remove(std::uint64_t number) {
  new_.erase(number);
  aside_.erase(number);
  again_.erase(number);
  resting_.Remove(number);
}

void WaitingRoom::OnTime(Time now) {
  while (auto number = resting_.Pop(now)) again_.insert(*number);
}

std::optional<std::uint64_t> WaitingRoom::Next(bool retry_may_start) const {
  if (!retry_may_start || again_.empty()) return FirstNew();
  if (new_.empty()) return *again_.begin();
  return std::min(*new_.begin(), *again_.begin());
}

std::optional<std::uint64_t> WaitingRoom::FirstNew() const {
  if (new_.empty()) return std::nullopt;
  return *new_.begin();
}

std::optional<std::uint64_t> WaitingRoom::FirstAside() const {
  if (aside_.empty()) return std::nullopt;
  return *aside_.begin();
}

}  // namespace tandem::router
