// A virtual clock: runs what is due, in order of time; equal times in the order they were added.
//
// An event may have an owner. What is due in a stopped owner waits until it goes on; what is due in
// a dead one never happens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "common/base/time.h"

namespace tandem::sim {

// A move-only function.
class Callback {
 public:
  template <typename F>
  Callback(F run) : held_(std::make_unique<Held<F>>(std::move(run))) {}
  void operator()() { held_->Run(); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual void Run() = 0;
  };
  template <typename F>
  struct Held final : Base {
    explicit Held(F run) : run(std::move(run)) {}
    void Run() override { run(); }
    F run;
  };
  std::unique_ptr<Base> held_;
};

struct EventOwner {
  bool dead = false;
  bool stopped = false;
  std::vector<Callback> backlog;  // while stopped, in order
};

class EventLoop {
 public:
  Time now() const { return now_; }
  void At(Time at, EventOwner* owner, Callback run) {
    events_.push_back({std::max(at, now_), next_++, owner, std::move(run)});
    std::push_heap(events_.begin(), events_.end());
  }
  void After(Duration delay, Callback run) { At(now_ + delay, nullptr, std::move(run)); }
  // Now, or when `owner` goes on, or never; part of the present event.
  void Execute(EventOwner& owner, Callback run) {
    if (owner.dead) return;
    if (owner.stopped) {
      owner.backlog.push_back(std::move(run));
      return;
    }
    touched_ = &owner;
    run();
  }
  // Runs the next event; false: there is none before `until`.
  bool Step(Time until) {
    if (events_.empty() || events_.front().at > until) return false;
    std::pop_heap(events_.begin(), events_.end());
    Event event = std::move(events_.back());
    events_.pop_back();
    now_ = event.at;
    touched_ = nullptr;
    if (event.owner != nullptr && event.owner->dead) return true;
    ++count_;
    if (event.owner == nullptr) {
      event.run();
    } else {
      Execute(*event.owner, std::move(event.run));
    }
    return true;
  }
  // Requires: nothing is due before.
  void AdvanceTo(Time time) { now_ = std::max(now_, time); }
  // What the last event happened in; nullptr: in no owner.
  const EventOwner* touched() const { return touched_; }
  std::uint64_t count() const { return count_; }

 private:
  struct Event {
    Time at;
    std::uint64_t number;
    EventOwner* owner;
    Callback run;
    bool operator<(const Event& other) const {  // the heap's front is the greatest
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  Time now_{};
  std::uint64_t next_ = 0;
  std::uint64_t count_ = 0;
  const EventOwner* touched_ = nullptr;
  std::vector<Event> events_;  // a heap
};

}  // namespace tandem::sim
