#include "deploy/bench/own_lateness.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::deploy {

void OwnLateness::OnSend(Duration late) {
  ++sends_;
  if (late > limit_) ++late_sends_;
  latest_send_ = std::max(latest_send_, late);
}

void OwnLateness::OnTick(Duration late) {
  longest_stall_ = std::max(longest_stall_, late);
  if (late > limit_) stalled_ += late;
}

std::vector<std::string> OwnLateness::Faults(Duration run) const {
  std::vector<std::string> faults;
  if (not_sent_ > 0) {
    faults.push_back(fmt::format(
        "{} requests were due and not sent: too many in flight (--max-in-flight), or over 1 s late",
        not_sent_));
  }
  if (static_cast<double>(late_sends_) > kShareMax * static_cast<double>(sends_)) {
    faults.push_back(fmt::format("{} of {} requests were sent over {:g} ms late (latest {:.1f} ms)",
                                 late_sends_, sends_, ToMillis(limit_), ToMillis(latest_send_)));
  }
  if (ToSeconds(stalled_) > kShareMax * ToSeconds(run)) {
    faults.push_back(fmt::format(
        "the generator was over {:g} ms late for {:.2f} s of {:.2f} s (longest stall {:.1f} ms)",
        ToMillis(limit_), ToSeconds(stalled_), ToSeconds(run), ToMillis(longest_stall_)));
  }
  return faults;
}

}  // namespace tandem::deploy
