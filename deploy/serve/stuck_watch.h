// Decides when a child is stuck for good and must be killed: its engine step exceeds its own limit,
// it says nothing, or it is stopped, for `stuck_after` on end.
//
// What a child says ("progress") is the age of the step that its engine works on (a router has
// none), and it can only say so when its strand answers; so neither a live process nor a live
// heartbeat thread vouches for a stuck step, nor an open port for a router that hangs. A child that
// has not spoken yet is starting, which may take long.
//
// One child. Pure: times come in. Not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "common/base/time.h"

namespace tandem::deploy {

class StuckWatch {
 public:
  // The watch is looked at about this often; a longer gap means that the supervisor itself was
  // stopped, and what it did not hear then counts for nothing.
  static constexpr Duration kEvery = std::chrono::milliseconds(500);

  // `stuck_after` 0: never.
  explicit StuckWatch(Duration stuck_after) : stuck_after_(stuck_after) {}

  // A new life.
  void Started();
  // What the child said: its step runs for so long (zero: none runs), and is stuck after so long.
  void OnProgress(Time now, Duration running_for, Duration limit);
  // Why the child must be killed, or nothing. `stopped`: by a signal, as the system says.
  std::optional<std::string> Check(Time now, bool stopped);

 private:
  bool For(std::optional<Time> since, Time now) const {
    return since.has_value() && now - *since >= stuck_after_;
  }

  const Duration stuck_after_;
  std::optional<Time> last_check_;
  std::optional<Time> stopped_since_;
  std::optional<Time> stuck_since_;  // its step
  std::optional<Time> heard_;        // its last word
};

}  // namespace tandem::deploy
