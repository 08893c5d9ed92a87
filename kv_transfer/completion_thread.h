// The thread that owns a transport's library objects and delivers its events. It sleeps when idle,
// a second at most.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "common/base/time.h"
#include "kv_transfer/poller.h"

namespace tandem::transfer {

class CompletionThread {
 public:
  struct Work {
    std::function<bool()> step;           // true: did something, call again before sleeping
    std::function<Time()> next_deadline;  // kNever: none
    std::function<void()> finish;         // last call on the thread: release what it owns
  };

  CompletionThread(std::unique_ptr<Poller> poller, Work work);
  ~CompletionThread();  // Stop

  // Ends the thread after the current step, runs `finish`, joins. Idempotent; not from the thread.
  void Stop();
  void Wake() { poller_->Wake(); }
  Poller& poller() { return *poller_; }

 private:
  void Run();

  std::unique_ptr<Poller> poller_;
  Work work_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace tandem::transfer
