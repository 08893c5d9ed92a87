#include "deploy/serve/restart_policy.h"

#include <algorithm>

namespace tandem::deploy {

RestartPolicy::Decision RestartPolicy::Ended(Time now, bool well) {
  const bool early = ready_at_ == kNever || now - ready_at_ < options_.early;
  early_ends_ = early ? early_ends_ + 1 : 0;
  if (!early) early_deaths_ = 0;
  if (early && !well) ++early_deaths_;
  if (options_.mode == RestartMode::kNever) return {.what = What::kGiveUp};
  if (well && options_.mode == RestartMode::kOnFailure) return {.what = What::kLeave};
  if (options_.early_deaths_max > 0 && early_deaths_ >= options_.early_deaths_max) {
    return {.what = What::kGiveUp};
  }
  Duration backoff = options_.backoff_min;
  for (int i = 1; i < early_ends_ && backoff < options_.backoff_max; ++i) backoff *= 2;
  backoff = std::min(backoff, options_.backoff_max);
  // Children that died together come back apart.
  const double jitter = 0.75 + 0.5 * random_.Unit();
  return {.what = What::kRestart,
          .at = now + std::chrono::duration_cast<Duration>(backoff * jitter)};
}

}  // namespace tandem::deploy
