// A thread for work that would hold up the strand: long prompts. Bounded: a full queue refuses.
// Thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/net/strand.h"

namespace tandem::router {

class WorkQueue {
 public:
  // Requires: max_queued > 0.
  explicit WorkQueue(std::size_t max_queued);
  // Waits for the work that runs; what still waits is destroyed without running.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Whether `work` was taken; it runs later, in order, on the queue's thread.
  bool TryRun(net::Closure work);

 private:
  void Loop();

  const std::size_t max_queued_;
  Mutex mutex_;
  std::deque<net::Closure> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tandem::router
