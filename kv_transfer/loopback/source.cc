#include <cstddef>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "kv_transfer/link_driver.h"
#include "kv_transfer/loopback/condvar_poller.h"
#include "kv_transfer/loopback/hub.h"
#include "kv_transfer/loopback/loopback.h"
#include "kv_transfer/source_core.h"

namespace tandem::transfer::loopback {
namespace {

class LoopbackDriver final : public LinkDriver {
 public:
  LoopbackDriver(std::span<const std::byte> memory, std::uint64_t piece_bytes,
                 std::shared_ptr<Port> port)
      : memory_(memory), piece_bytes_(piece_bytes), port_(std::move(port)) {}

  StatusOr<bool> Step(LinkQueue& queue, LinkEvents& events) override {
    {
      ReaderLock lock(port_->gate);
      if (!port_->open) return Unavailable("the sink was destroyed");
    }
    if (!ready_) {
      ready_ = true;
      events.Ready();
      return true;
    }
    switch (queue.Pop({.bytes = piece_bytes_, .writes = 256}, item_)) {
      case LinkQueue::Popped::kNothing:
        return false;
      case LinkQueue::Popped::kWrites:
        return CopyPiece(queue);
      case LinkQueue::Popped::kFence: {
        Status status;
        if (const auto refused = refused_.find(item_.ticket); refused != refused_.end()) {
          status = refused->second;
          refused_.erase(refused);
        }
        events.Fenced(item_.ticket, item_.cookie, status);
        return true;
      }
    }
    return false;
  }
  void Abort(const Ticket& ticket) override { refused_.erase(ticket); }
  bool Outstanding(const Ticket&) const override { return false; }  // a step copies it all

 private:
  StatusOr<bool> CopyPiece(LinkQueue& queue) {
    ReaderLock lock(port_->gate);
    if (!port_->open) return Unavailable("the sink was destroyed");
    for (const Write& write : item_.writes) {
      const SinkRange range{write.region, write.sink_offset, write.length};
      const Status taken = port_->landing.Take(item_.ticket, {&range, 1},
                                               memory_.subspan(write.source_offset, write.length));
      if (!taken.ok()) refused_.try_emplace(item_.ticket, taken);
    }
    queue.AddWritten(item_.bytes);
    return true;
  }

  const std::span<const std::byte> memory_;
  const std::uint64_t piece_bytes_;
  const std::shared_ptr<Port> port_;  // see Hub
  bool ready_ = false;
  LinkQueue::Item item_;
  absl::flat_hash_map<Ticket, Status> refused_;  // since the ticket's last fence
};

}  // namespace

std::unique_ptr<Source> CreateLoopbackSource(const SourceOptions& options, SourceEventFn on_event) {
  auto make_driver = [hub = options.hub, memory = options.memory,
                      piece_bytes = static_cast<std::uint64_t>(options.outstanding_bytes.value())](
                         const SinkDescriptor& sink) -> StatusOr<std::unique_ptr<LinkDriver>> {
    std::shared_ptr<Port> port = hub->Find(sink.address);
    if (port == nullptr) return Unavailable("no sink at {}", sink.address);
    if (port->incarnation != sink.incarnation) {
      return FailedPrecondition("the sink at {} is another incarnation", sink.address);
    }
    for (const RegionDescriptor& region : sink.regions) {
      if (port->landing.memory(region.id).size() !=
          static_cast<std::size_t>(region.length.value())) {
        return FailedPrecondition("region {} of {} bytes is not the sink's", region.id,
                                  region.length);
      }
    }
    return std::make_unique<LoopbackDriver>(memory, piece_bytes, std::move(port));
  };
  return std::make_unique<SourceCore>(options, std::move(on_event),
                                      SourceCore::Parts{.poller = std::make_unique<CondvarPoller>(),
                                                        .make_driver = std::move(make_driver),
                                                        .keep_alive = nullptr});
}

}  // namespace tandem::transfer::loopback
