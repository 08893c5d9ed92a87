// A place to keep state that several threads feed: closures posted to a strand run one at a time,
// in order, on some thread of its IoThreads.
#pragma once

#include <functional>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "common/base/time.h"
#include "common/net/io_threads.h"

namespace tandem::net {

using Closure = absl::AnyInvocable<void()>;

// A handle: copies are the same strand. Thread-safe. Must not outlive its IoThreads.
class Strand {
 public:
  explicit Strand(IoThreads& io);

  // Runs `closure` later, never inside this call.
  void Post(Closure closure) const;
  // Runs `what` and returns when it is done. Requires: not called on the strand, nor on the only
  // thread of its IoThreads.
  void Run(const std::function<void()>& what) const;
  // Whether the caller runs on this strand.
  bool RunsHere() const;

  struct Impl;
  Impl& impl() const { return *impl_; }  // for net and rpc; its shape is in strand_impl.h

 private:
  std::shared_ptr<Impl> impl_;  // shared by the copies
};

// One pending wake-up on a strand. All calls on the strand (or before it runs).
class Timer {
 public:
  explicit Timer(const Strand& strand);
  // Cancels.
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Runs `closure` once on the strand when the steady clock reaches `at`, instead of what was set
  // before. kNever is Cancel().
  void Set(Time at, Closure closure);
  // What was set does not run any more, not even if its time has come.
  void Cancel();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the wait in flight
};

}  // namespace tandem::net
