#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "kv_transfer/completion_thread.h"
#include "kv_transfer/host_memory.h"
#include "kv_transfer/loopback/condvar_poller.h"
#include "kv_transfer/loopback/hub.h"
#include "kv_transfer/loopback/loopback.h"

namespace tandem::transfer::loopback {
namespace {

class LoopbackSink final : public Sink {
 public:
  LoopbackSink(const SinkOptions& options, std::vector<HostMemory> memory,
               std::shared_ptr<Port> port, SinkDescriptor descriptor, SinkEventFn on_event)
      : hub_(options.hub),
        memory_(std::move(memory)),
        port_(std::move(port)),
        descriptor_(std::move(descriptor)),
        on_event_(std::move(on_event)),
        thread_(std::make_unique<CondvarPoller>(), {.step = [this] { return Step(); },
                                                    .next_deadline = [] { return kNever; },
                                                    .finish = [] {}}) {}
  ~LoopbackSink() override {
    hub_->Remove(descriptor_.address);
    {
      WriterLock lock(port_->gate);  // waits for a copy in progress
      port_->open = false;
    }
    thread_.Stop();
  }

  const SinkDescriptor& descriptor() const override { return descriptor_; }
  std::span<std::byte> memory(RegionId id) override { return port_->landing.memory(id); }
  DrainProof drain_proof() const override { return DrainProof::kSink; }
  Status Expect(const Ticket& ticket, std::span<const SinkRange> ranges) override {
    return port_->landing.Expect(ticket, ranges);
  }
  void Forget(const Ticket& ticket) override {
    port_->landing.Forget(ticket);
    {
      MutexLock lock(mutex_);
      forgotten_.push_back(ticket);
    }
    thread_.Wake();
  }
  ByteCount Received(const Ticket& ticket) const override {
    return port_->landing.Received(ticket);
  }
  SinkStats stats() const override { return port_->landing.stats(); }

 private:
  bool Step() {
    std::vector<Ticket> forgotten;
    {
      MutexLock lock(mutex_);
      forgotten.swap(forgotten_);
    }
    for (const Ticket& ticket : forgotten) on_event_(Forgotten{ticket});
    return !forgotten.empty();
  }

  const std::shared_ptr<Hub> hub_;
  const std::vector<HostMemory> memory_;
  const std::shared_ptr<Port> port_;  // see Hub
  const SinkDescriptor descriptor_;
  const SinkEventFn on_event_;
  Mutex mutex_;
  std::vector<Ticket> forgotten_ ABSL_GUARDED_BY(mutex_);
  CompletionThread thread_;  // last: uses all of the above
};

}  // namespace

StatusOr<std::unique_ptr<Sink>> CreateLoopbackSink(const SinkOptions& options,
                                                   SinkEventFn on_event) {
  SinkDescriptor descriptor{.transport = Transport::kLoopback,
                            .address = {},
                            .process = {},
                            .incarnation = options.incarnation,
                            .regions = {}};
  TANDEM_ASSIGN_OR_RETURN(descriptor.process, ProcessIdentity::Self());
  std::vector<HostMemory> memory;
  std::vector<Landing::Region> regions;
  for (const RegionSpec& spec : options.regions) {
    TANDEM_ASSIGN_OR_RETURN(HostMemory bytes, HostMemory::Allocate(spec.length));
    regions.push_back({spec.id, bytes.bytes()});
    descriptor.regions.push_back({spec.id, spec.length, {}});
    memory.push_back(std::move(bytes));
  }
  auto port = std::make_shared<Port>(options.incarnation, std::move(regions), options.max_tickets);
  descriptor.address = options.hub->Add(port);
  return std::make_unique<LoopbackSink>(options, std::move(memory), std::move(port),
                                        std::move(descriptor), std::move(on_event));
}

}  // namespace tandem::transfer::loopback
