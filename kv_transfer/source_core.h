// The transport-independent half of a Source: links, aborts, failures and their events. A transport
// adds a driver a link and a poller.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "kv_transfer/completion_thread.h"
#include "kv_transfer/create.h"
#include "kv_transfer/link_driver.h"
#include "kv_transfer/link_queue.h"
#include "kv_transfer/transfer.h"

namespace tandem::transfer {

class SourceCore final : public Source {
 public:
  // Checks a descriptor and makes the driver, on the caller's thread; the driver is used and
  // destroyed on the completion thread.
  using MakeDriver = std::function<StatusOr<std::unique_ptr<LinkDriver>>(const SinkDescriptor&)>;

  struct Parts {
    std::unique_ptr<Poller> poller;
    MakeDriver make_driver;
    std::shared_ptr<void> keep_alive;  // what drivers and poller use: outlives them
  };

  SourceCore(const SourceOptions& options, SourceEventFn on_event, Parts parts);
  ~SourceCore() override;

  StatusOr<std::unique_ptr<SourceLink>> Connect(LinkId link, const SinkDescriptor& sink) override;

 private:
  struct Link;
  class Handle;

  void Close(const std::shared_ptr<Link>& link);  // blocks until the thread has let go of it
  bool Step();
  bool StepLink(Link& link);
  bool HandleAborts(Link& link);
  void FailLink(Link& link, const Status& reason);
  Time NextDeadline() const;

  const SourceOptions options_;
  const SourceEventFn on_event_;
  const std::shared_ptr<void> keep_alive_;
  const MakeDriver make_driver_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Link>> opening_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Link>> closing_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Link>> links_;  // the completion thread's
  CompletionThread thread_;                   // last: uses all of the above
};

}  // namespace tandem::transfer
