#include "router/core/start_forecast.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tandem::router {

void StartForecast::Sent(std::uint64_t number, Time now) { waiting_.insert_or_assign(number, now); }

void StartForecast::Left(std::uint64_t number, Time now) {
  if (waiting_.erase(number) == 0) return;
  if (slots_.empty() || slots_.back().begin + kSlot <= now) slots_.push_back({now, 0});
  ++slots_.back().left;
  while (slots_.front().begin < now - kRemembered) slots_.pop_front();
}

std::optional<double> StartForecast::PerSecondMost(Time now) const {
  if (waiting_.empty()) return std::nullopt;
  std::vector<Time> since;
  for (const auto& [number, at] : waiting_) since.push_back(at);
  // The later of two medians: one request that waits for long proves nothing about a second.
  const auto median = since.begin() + static_cast<std::ptrdiff_t>(since.size() / 2);
  std::nth_element(since.begin(), median, since.end());
  const Time from = std::max(*median, now - kRemembered);
  if (now - from < kWatched) return std::nullopt;
  double counted = 0;
  for (const Slot& slot : slots_) {
    if (slot.begin + kSlot > from) counted += static_cast<double>(slot.left);
  }
  return (counted + 2 * std::sqrt(counted + 1)) / ToSeconds(now - from);
}

}  // namespace tandem::router
