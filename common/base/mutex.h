// Locks that ThreadSanitizer understands: made of the standard library's, whose calls it watches
// (a packaged abseil is not instrumented, and each use of its mutex looks like a race).
//
//   MutexLock lock(mutex_);
//   mutex_.Await([&] { return !queue_.empty(); });
//
// Members are marked with ABSL_GUARDED_BY(mutex_).
#pragma once

#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#include "absl/base/thread_annotations.h"
#include "common/base/time.h"

namespace tandem {

// A mutex with conditions: whoever awaits one is woken when a holder lets go. Thread-safe.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    // Under the lock: a waiter may destroy this object as soon as it has it.
    if (waiters_ > 0) changed_.notify_all();
    mutex_.unlock();
  }

  // Waits until `condition()` is true; it is evaluated under the lock. Requires: held.
  template <typename Condition>
  void Await(Condition condition) {
    AwaitUntil(condition, kNever);
  }
  // The same until `at`: whether the condition is true.
  template <typename Condition>
  bool AwaitUntil(Condition condition, Time at) {
    if (condition()) return true;
    if (waiters_ > 0) changed_.notify_all();  // of what the caller changed before
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    ++waiters_;
    bool met = true;
    if (at == kNever) {
      changed_.wait(lock, condition);
    } else {
      met = changed_.wait_until(lock, at, condition);
    }
    --waiters_;
    lock.release();
    return met;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiters_ = 0;  // guarded by mutex_
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Many readers or one writer; no conditions.
class ABSL_LOCKABLE SharedMutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  void ReaderLock() ABSL_SHARED_LOCK_FUNCTION() { mutex_.lock_shared(); }
  void ReaderUnlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~WriterLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class ABSL_SCOPED_LOCKABLE ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) ABSL_SHARED_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.ReaderLock();
  }
  ~ReaderLock() ABSL_UNLOCK_FUNCTION() { mutex_.ReaderUnlock(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// Happens once. Thread-safe.
class Notification {
 public:
  void Notify() {
    MutexLock lock(mutex_);
    notified_ = true;
  }
  bool HasBeenNotified() {
    MutexLock lock(mutex_);
    return notified_;
  }
  void WaitForNotification() {
    MutexLock lock(mutex_);
    mutex_.Await([this] { return notified_; });
  }
  // Whether it has happened by `at`.
  bool WaitUntil(Time at) {
    MutexLock lock(mutex_);
    return mutex_.AwaitUntil([this] { return notified_; }, at);
  }

 private:
  Mutex mutex_;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem
