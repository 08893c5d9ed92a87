// SIGINT, SIGTERM, SIGUSR1 and the death of a parent, as events on a strand.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "common/base/scoped_fd.h"
#include "common/base/status.h"
#include "common/net/fd_watch.h"
#include "common/net/strand.h"

namespace tandem::worker {

// Requires: BlockSignals was called by main before any thread was made.
class StopSignals {
 public:
  struct Events {
    std::function<void()> stop;    // the first SIGINT or SIGTERM, or the parent has ended
    std::function<void()> hurry;   // another one
    std::function<void()> report;  // SIGUSR1: log the node's numbers
  };

  // So that only StopSignals hears of them.
  static void BlockSignals();

  // `parent_pid` 0: none. Errors: Unavailable when the system refuses.
  static StatusOr<std::unique_ptr<StopSignals>> Watch(const net::Strand& strand, int parent_pid,
                                                      Events events);

 private:
  explicit StopSignals(Events events) : events_(std::move(events)) {}
  void OnSignal();
  void Stop(std::string_view why);

  const Events events_;
  ScopedFd signals_;
  ScopedFd parent_;
  std::optional<net::FdWatch> signal_watch_;
  std::optional<net::FdWatch> parent_watch_;
  bool stopping_ = false;
};

}  // namespace tandem::worker
