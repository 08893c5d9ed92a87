// Watches whether the generator itself kept time; a run that it spoilt is no measurement.
//
// Two witnesses: how late each request of an open loop was sent, and how late the loop came round
// for a tick that is due every kTick (so a loop that was busy, or that got no core, shows although
// nothing was due). Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/time.h"

namespace tandem::deploy {

class OwnLateness {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(5);
  // More than this share of late sends, or of the run spent late, and the run is invalid.
  static constexpr double kShareMax = 0.01;

  // What is later than `limit` counts.
  explicit OwnLateness(Duration limit) : limit_(limit) {}

  void OnSend(Duration late);
  void OnTick(Duration late);
  // A request was due and was given up: too many were in flight, or it was far too late already.
  void OnNotSent() { ++not_sent_; }

  std::int64_t sends() const { return sends_; }
  std::int64_t late_sends() const { return late_sends_; }
  std::int64_t not_sent() const { return not_sent_; }
  Duration latest_send() const { return latest_send_; }
  Duration longest_stall() const { return longest_stall_; }
  Duration stalled() const { return stalled_; }  // all stalls over the limit together

  // Why a run of length `run` is invalid; empty: it is valid.
  std::vector<std::string> Faults(Duration run) const;

 private:
  Duration limit_;
  std::int64_t sends_ = 0;
  std::int64_t late_sends_ = 0;
  std::int64_t not_sent_ = 0;
  Duration latest_send_{};
  Duration longest_stall_{};
  Duration stalled_{};
};

}  // namespace tandem::deploy
