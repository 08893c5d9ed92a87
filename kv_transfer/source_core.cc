#include "kv_transfer/source_core.h"

#include <algorithm>
#include <utility>

#include "common/log/log.h"

namespace tandem::transfer {

// Shared by its handle and the completion thread, whichever lets go last.
struct SourceCore::Link final : LinkEvents {
  struct PendingAbort {
    Ticket ticket;
    Time deadline;
  };

  Link(LinkId id, const SourceEventFn& on_event, const LinkQueue::Limits& limits,
       const SinkDescriptor& sink, std::unique_ptr<LinkDriver> driver)
      : id(id),
        transport(sink.transport),
        on_event(on_event),
        queue(limits, sink.regions),
        driver(std::move(driver)) {}

  void Ready() override {
    log::Info("kv.link.ready", "link={} transport={}", id, ToString(transport));
    on_event(LinkReady{id});
  }
  void Fenced(const Ticket& ticket, Cookie cookie, const Status& status) override {
    on_event(transfer::Fenced{id, ticket, cookie, status});
  }

  const LinkId id;
  const Transport transport;
  const SourceEventFn& on_event;
  LinkQueue queue;
  Notification closed;
  // The completion thread's.
  std::unique_ptr<LinkDriver> driver;  // null: failed or closed
  std::vector<PendingAbort> aborts;
};

class SourceCore::Handle final : public SourceLink {
 public:
  Handle(SourceCore& core, std::shared_ptr<Link> link) : core_(core), link_(std::move(link)) {}
  ~Handle() override { core_.Close(link_); }

  Status Put(const Ticket& ticket, std::span<const Write> writes) override {
    TANDEM_RETURN_IF_ERROR(link_->queue.Put(ticket, writes));
    core_.thread_.Wake();
    return OkStatus();
  }
  Status Fence(const Ticket& ticket, Cookie cookie) override {
    TANDEM_RETURN_IF_ERROR(link_->queue.Fence(ticket, cookie));
    core_.thread_.Wake();
    return OkStatus();
  }
  void Abort(const Ticket& ticket) override {
    if (link_->queue.Abort(ticket)) core_.thread_.Wake();
  }
  LinkStats stats() const override { return link_->queue.stats(); }

 private:
  SourceCore& core_;
  const std::shared_ptr<Link> link_;
};

SourceCore::SourceCore(const SourceOptions& options, SourceEventFn on_event, Parts parts)
    : options_(options),
      on_event_(std::move(on_event)),
      keep_alive_(std::move(parts.keep_alive)),
      make_driver_(std::move(parts.make_driver)),
      thread_(std::move(parts.poller), {.step = [this] { return Step(); },
                                        .next_deadline = [this] { return NextDeadline(); },
                                        .finish = [this] { links_.clear(); }}) {}

SourceCore::~SourceCore() { thread_.Stop(); }

StatusOr<std::unique_ptr<SourceLink>> SourceCore::Connect(LinkId id, const SinkDescriptor& sink) {
  if (sink.transport != options_.transport) {
    return FailedPrecondition("the sink wants its bytes by {}, this source sends by {}",
                              ToString(sink.transport), ToString(options_.transport));
  }
  if (sink.incarnation == 0) return InvalidArgument("the sink's incarnation is 0");
  for (const RegionDescriptor& region : sink.regions) {
    if (region.length.value() <= 0) {
      return InvalidArgument("the sink's region {} has {} bytes", region.id, region.length);
    }
  }
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<LinkDriver> driver, make_driver_(sink));
  const LinkQueue::Limits limits{options_.memory.size(), options_.max_queued_writes};
  auto link = std::make_shared<Link>(id, on_event_, limits, sink, std::move(driver));
  {
    MutexLock lock(mutex_);
    opening_.push_back(link);
  }
  thread_.Wake();
  return std::make_unique<Handle>(*this, std::move(link));
}

void SourceCore::Close(const std::shared_ptr<Link>& link) {
  link->queue.Fail(Cancelled("the link was closed"));
  {
    MutexLock lock(mutex_);
    closing_.push_back(link);
  }
  thread_.Wake();
  link->closed.WaitForNotification();
}

bool SourceCore::Step() {
  std::vector<std::shared_ptr<Link>> closing;
  {
    MutexLock lock(mutex_);
    links_.insert(links_.end(), opening_.begin(), opening_.end());
    opening_.clear();
    closing.swap(closing_);
  }
  for (const std::shared_ptr<Link>& link : closing) {
    link->driver.reset();
    std::erase(links_, link);
    link->closed.Notify();
  }
  bool worked = !closing.empty();
  for (const std::shared_ptr<Link>& link : links_) worked |= StepLink(*link);
  return worked;
}

bool SourceCore::StepLink(Link& link) {
  if (link.driver == nullptr) return false;
  bool worked = HandleAborts(link);
  if (link.driver == nullptr) return true;
  const StatusOr<bool> stepped = link.driver->Step(link.queue, link);
  if (!stepped.ok()) {
    FailLink(link, stepped.status());
    return true;
  }
  return worked || *stepped;
}

bool SourceCore::HandleAborts(Link& link) {
  std::vector<Ticket> fresh;
  link.queue.TakeAborts(fresh);
  const Time now = fresh.empty() && link.aborts.empty() ? Time() : SteadyNow();
  for (const Ticket& ticket : fresh) {
    link.driver->Abort(ticket);
    link.aborts.push_back({ticket, now + options_.drain_timeout});
  }
  bool worked = !fresh.empty();
  bool late = false;
  for (std::size_t i = 0; i < link.aborts.size();) {
    if (!link.driver->Outstanding(link.aborts[i].ticket)) {
      const Ticket ticket = link.aborts[i].ticket;
      link.aborts.erase(link.aborts.begin() + static_cast<std::ptrdiff_t>(i));
      on_event_(Drained{link.id, ticket});
      worked = true;
      continue;
    }
    late |= now >= link.aborts[i].deadline;
    ++i;
  }
  if (late) {
    FailLink(link, Unavailable("the sink took no bytes of an aborted ticket for {:.1f} s",
                               ToSeconds(options_.drain_timeout)));
  }
  return worked;
}

void SourceCore::FailLink(Link& link, const Status& reason) {
  link.queue.Fail(reason);
  std::vector<Ticket> fresh;
  link.queue.TakeAborts(fresh);
  link.driver.reset();
  for (const Link::PendingAbort& abort : link.aborts) on_event_(Drained{link.id, abort.ticket});
  for (const Ticket& ticket : fresh) on_event_(Drained{link.id, ticket});
  link.aborts.clear();
  on_event_(LinkFailed{link.id, reason});
}

Time SourceCore::NextDeadline() const {
  Time next = kNever;
  for (const std::shared_ptr<Link>& link : links_) {
    if (link->driver == nullptr) continue;
    next = std::min(next, link->driver->next_deadline());
    for (const Link::PendingAbort& abort : link->aborts) next = std::min(next, abort.deadline);
  }
  return next;
}

}  // namespace tandem::transfer
