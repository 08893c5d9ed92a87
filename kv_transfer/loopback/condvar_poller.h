// A poller for a transport without descriptors: sleeps on a condition variable.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kv_transfer/poller.h"

namespace tandem::transfer::loopback {

class CondvarPoller final : public Poller {
 public:
  bool Progress() override { return false; }
  void Sleep(Time until) override {
    absl::MutexLock lock(&mutex_);
    while (!woken_) {
      const Duration left = until - SteadyNow();
      if (left <= Duration::zero()) break;
      condition_.WaitWithTimeout(&mutex_, absl::FromChrono(left));
    }
    woken_ = false;
  }
  void Wake() override {
    absl::MutexLock lock(&mutex_);
    woken_ = true;
    condition_.Signal();
  }

 private:
  absl::Mutex mutex_;
  absl::CondVar condition_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::transfer::loopback
