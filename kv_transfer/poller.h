// What a completion thread sleeps on.
#pragma once

#include "common/base/time.h"

namespace tandem::transfer {

// Progress and Sleep are called by the one thread that owns the poller; Wake by any.
class Poller {
 public:
  virtual ~Poller() = default;
  // Runs what is ready in the transport's library. True when there was something.
  virtual bool Progress() = 0;
  // Returns when something may have become ready, after a Wake since the last Sleep, or at `until`.
  virtual void Sleep(Time until) = 0;
  virtual void Wake() = 0;
};

}  // namespace tandem::transfer
