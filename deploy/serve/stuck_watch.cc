#include "deploy/serve/stuck_watch.h"

#include <fmt/format.h>

namespace tandem::deploy {
namespace {

constexpr Duration kAwayGap = 10 * StuckWatch::kEvery;

}  // namespace

void StuckWatch::Started() {
  last_check_.reset();
  stopped_since_.reset();
  stuck_since_.reset();
  heard_.reset();
}

void StuckWatch::OnProgress(Time now, Duration running_for, Duration limit) {
  heard_ = now;
  if (running_for > limit) {
    if (!stuck_since_.has_value()) stuck_since_ = now;
  } else {
    stuck_since_.reset();
  }
}

std::optional<std::string> StuckWatch::Check(Time now, bool stopped) {
  const bool was_away = last_check_.has_value() && now - *last_check_ > kAwayGap;
  last_check_ = now;
  if (!stopped) stopped_since_.reset();
  if (stopped && !stopped_since_.has_value()) stopped_since_ = now;
  if (was_away) {
    if (stopped_since_.has_value()) stopped_since_ = now;
    if (stuck_since_.has_value()) stuck_since_ = now;
    if (heard_.has_value()) heard_ = now;
  }
  if (stuck_after_ == Duration(0)) return std::nullopt;
  if (For(stopped_since_, now)) {
    return fmt::format("was stopped by a signal for {} s", ToSeconds(now - *stopped_since_));
  }
  if (For(stuck_since_, now)) {
    return fmt::format("its engine's step has been stuck for {} s", ToSeconds(now - *stuck_since_));
  }
  if (For(heard_, now)) {
    return fmt::format("said nothing of its progress for {} s", ToSeconds(now - *heard_));
  }
  return std::nullopt;
}

}  // namespace tandem::deploy
