// Calls back when a file descriptor becomes readable: a pidfd whose process ended, a signalfd.
#pragma once

#include <functional>
#include <memory>

#include "common/base/scoped_fd.h"
#include "common/net/strand.h"

namespace tandem::net {

// All calls on the strand (or before it runs).
class FdWatch {
 public:
  // Owns a duplicate of `fd`. `readable` runs on the strand each time the descriptor is readable,
  // until it is read empty or the watch ends; it may destroy the watch.
  FdWatch(const Strand& strand, int fd, std::function<void()> readable);
  // No call follows.
  ~FdWatch();
  FdWatch(const FdWatch&) = delete;
  FdWatch& operator=(const FdWatch&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the wait in flight
};

}  // namespace tandem::net
