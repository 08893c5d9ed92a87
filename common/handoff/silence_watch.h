// When a peer counts as lost because nothing was heard from it: stopped or cut off, not dead (that
// is known at once). One for each connection; whoever finds silence closes the connection, so that
// a loss is never one-sided. Pure; not thread-safe.
#pragma once

#include <algorithm>

#include "common/base/time.h"

namespace tandem::handoff {

inline constexpr Duration kHeartbeatEvery = std::chrono::milliseconds(250);
inline constexpr Duration kSilenceLimit = std::chrono::seconds(2);

class SilenceWatch {
 public:
  SilenceWatch(Duration limit, Time now) : limit_(limit), last_heard_(now) {}

  // Something came, or it is we who do not listen.
  void Heard(Time now) { last_heard_ = std::max(last_heard_, now); }
  bool IsSilent(Time now) const { return now >= deadline(); }
  Time deadline() const { return last_heard_ + limit_; }

 private:
  Duration limit_;
  Time last_heard_;
};

}  // namespace tandem::handoff
