// How one transport carries one link. Lives on its source's completion thread.
#pragma once

#include <memory>

#include "kv_transfer/link_queue.h"
#include "kv_transfer/transfer.h"

namespace tandem::transfer {

// Where a driver reports.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  virtual void Ready() = 0;
  virtual void Fenced(const Ticket& ticket, Cookie cookie, const Status& status) = 0;
};

class LinkDriver {
 public:
  // Afterwards nothing of the link reads the source's memory or writes the sink's.
  virtual ~LinkDriver() = default;
  // Opens the link, hands over what the queue holds, as far as it goes without waiting. True: did
  // something, call again before sleeping. Errors: the link has failed.
  virtual StatusOr<bool> Step(LinkQueue& queue, LinkEvents& events) = 0;
  // Forgets the fences of `ticket` that wait for an answer; Fenced is not called for it any more.
  virtual void Abort(const Ticket& ticket) = 0;
  // Whether a write of `ticket` is handed over and not complete.
  virtual bool Outstanding(const Ticket& ticket) const = 0;
  virtual Time next_deadline() const { return kNever; }
};

}  // namespace tandem::transfer
