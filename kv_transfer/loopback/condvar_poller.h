// A poller for a transport without descriptors: sleeps on a condition variable.
#pragma once

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "kv_transfer/poller.h"

namespace tandem::transfer::loopback {

class CondvarPoller final : public Poller {
 public:
  bool Progress() override { return false; }
  void Sleep(Time until) override {
    MutexLock lock(mutex_);
    mutex_.AwaitUntil([this] { return woken_; }, until);
    woken_ = false;
  }
  void Wake() override {
    MutexLock lock(mutex_);
    woken_ = true;
  }

 private:
  Mutex mutex_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::transfer::loopback
