// One context and its one ucp_worker_h, and how its thread sleeps. The thread that calls Progress
// and Sleep owns everything made from the worker; Wake may be called by any.
#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <memory>
#include <string>

#include "common/base/scoped_fd.h"
#include "common/base/status.h"
#include "kv_transfer/poller.h"
#include "kv_transfer/ucx/context.h"

namespace tandem::transfer::ucx {

class Worker final : public Poller {
 public:
  // Errors: Unavailable with UCX's or the system's reason.
  static StatusOr<std::unique_ptr<Worker>> Create(const Context::Options& options);
  ~Worker() override;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ucp_context_h context() const { return context_.get(); }
  ucp_worker_h get() const { return worker_; }
  StatusOr<std::string> Address() const;
  // Calls `handler` for active messages `id`, from Progress. Before the address is published.
  Status SetHandler(unsigned id, ucp_am_recv_callback_t handler, void* argument);

  bool Progress() override;
  void Sleep(Time until) override;
  void Wake() override;
  // Sleep also ends when `fd` becomes readable, once; until UnwatchFd. Thread-safe.
  Status WatchFd(int fd);
  void UnwatchFd(int fd);

 private:
  explicit Worker(Context context) : context_(std::move(context)) {}
  Status Open();

  Context context_;
  ucp_worker_h worker_ = nullptr;
  ScopedFd epoll_;
  std::atomic<bool> woken_{false};
};

}  // namespace tandem::transfer::ucx
