#include "router/api/work_queue.h"

#include <utility>

#include "common/base/check.h"

namespace tandem::router {

WorkQueue::WorkQueue(std::size_t max_queued) : max_queued_(max_queued) {
  TANDEM_CHECK(max_queued > 0);
  thread_ = std::thread([this] { Loop(); });
}

WorkQueue::~WorkQueue() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  thread_.join();
}

bool WorkQueue::TryRun(net::Closure work) {
  MutexLock lock(mutex_);
  if (stopping_ || queue_.size() >= max_queued_) return false;
  queue_.push_back(std::move(work));
  return true;
}

void WorkQueue::Loop() {
  while (true) {
    net::Closure work;
    {
      MutexLock lock(mutex_);
      auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !queue_.empty();
      };
      mutex_.Await(has_work);
      if (stopping_) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace tandem::router
