// A virtual clock: runs what is due, in order of time; equal times in the order they were added.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "common/base/time.h"

namespace tandem::sim {

class EventLoop {
 public:
  Time now() const { return now_; }
  void At(Time at, std::function<void()> run) {
    events_.push({std::max(at, now_), next_++, std::move(run)});
  }
  void After(Duration delay, std::function<void()> run) { At(now_ + delay, std::move(run)); }
  // Runs the next event; false: there is none before `until`.
  bool Step(Time until) {
    if (events_.empty() || events_.top().at > until) return false;
    std::function<void()> run = std::move(const_cast<Event&>(events_.top()).run);
    now_ = events_.top().at;
    events_.pop();
    ++count_;
    run();
    return true;
  }
  std::uint64_t count() const { return count_; }

 private:
  struct Event {
    Time at;
    std::uint64_t number;
    std::function<void()> run;
    bool operator<(const Event& other) const {  // the queue's top is the greatest
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  Time now_{};
  std::uint64_t next_ = 0;
  std::uint64_t count_ = 0;
  std::priority_queue<Event> events_;
};

}  // namespace tandem::sim
