// Whether and when the supervisor starts a child again that has ended: back-off that doubles with
// jitter, and an end to it when the child keeps dying early.
//
//   Started ─► Ready ─► Ended → restart at a time | leave it | give up
//
// One child. Pure: times come in. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/random.h"
#include "common/base/time.h"

namespace tandem::deploy {

enum class RestartMode : std::uint8_t { kAlways, kOnFailure, kNever };

class RestartPolicy {
 public:
  struct Options {
    RestartMode mode = RestartMode::kAlways;
    Duration backoff_min = std::chrono::milliseconds(200);
    Duration backoff_max = std::chrono::seconds(10);
    // An end before it was ready, or within this after, is early.
    Duration early = std::chrono::seconds(10);
    // As many early deaths in a row: it will not get better. 0: never given up.
    int early_deaths_max = 5;
  };
  enum class What : std::uint8_t {
    kRestart,
    kLeave,   // it ended well, and is not wanted back
    kGiveUp,  // its end is the cluster's
  };
  struct Decision {
    What what = What::kRestart;
    Time at{};  // kRestart
  };

  RestartPolicy(const Options& options, std::uint64_t seed) : options_(options), random_(seed) {}

  void Started() { ready_at_ = kNever; }
  void Ready(Time now) {
    if (ready_at_ == kNever) ready_at_ = now;
  }
  // `well`: with status 0, as after a drain; that is no death, but early ones are paced too.
  Decision Ended(Time now, bool well);

  int early_deaths() const { return early_deaths_; }

 private:
  const Options options_;
  SplitMix64 random_;
  Time ready_at_ = kNever;
  int early_ends_ = 0;    // in a row
  int early_deaths_ = 0;  // of these, not well
};

}  // namespace tandem::deploy
