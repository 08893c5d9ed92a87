#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "kv_transfer/link_driver.h"
#include "kv_transfer/process_identity.h"
#include "kv_transfer/source_core.h"
#include "kv_transfer/streaming_copy.h"
#include "kv_transfer/ucx/endpoint.h"
#include "kv_transfer/ucx/envelope.h"
#include "kv_transfer/ucx/memory.h"
#include "kv_transfer/ucx/shm.h"
#include "kv_transfer/ucx/worker.h"

namespace tandem::transfer::ucx {
namespace {

class ShmDriver final : public LinkDriver {
 public:
  struct Key {
    RegionId id{0};
    Envelope envelope;
  };
  ShmDriver(const SourceOptions& options, Worker& worker, std::uint64_t incarnation,
            PeerProcess process, std::string address, std::vector<Key> keys)
      : memory_(options.memory),
        piece_bytes_(static_cast<std::uint64_t>(options.outstanding_bytes.value())),
        worker_(worker),
        incarnation_(incarnation),
        process_(std::move(process)),
        address_(std::move(address)),
        keys_(std::move(keys)) {}
  ~ShmDriver() override {
    StreamingFence();
    worker_.UnwatchFd(process_.fd());
    regions_.clear();  // keys before their endpoint
  }

  StatusOr<bool> Step(LinkQueue& queue, LinkEvents& events) override {
    if (process_.Gone()) return Unavailable("the sink's process has ended");
    if (endpoint_ == nullptr) {
      TANDEM_RETURN_IF_ERROR(Open());
      events.Ready();
      return true;
    }
    if (!endpoint_->failure().ok()) return endpoint_->failure();
    switch (queue.Pop({.bytes = piece_bytes_, .writes = 1024}, item_)) {
      case LinkQueue::Popped::kNothing:
        return false;
      case LinkQueue::Popped::kWrites:
        for (const Write& write : item_.writes) {
          StreamingCopy(Region(write.region) + write.sink_offset,
                        memory_.data() + write.source_offset, write.length);
        }
        // Here rather than at the fence: whatever is counted as written, or aborted, is out.
        StreamingFence();
        queue.AddWritten(item_.bytes);
        return true;
      case LinkQueue::Popped::kFence:
        events.Fenced(item_.ticket, item_.cookie, OkStatus());
        return true;
    }
    return false;
  }
  void Abort(const Ticket&) override {}
  bool Outstanding(const Ticket&) const override { return false; }  // a step copies it all

 private:
  struct Mapped {
    RegionId id{0};
    std::unique_ptr<RemoteMemory> memory;
  };

  std::byte* Region(RegionId id) const {
    for (const Mapped& region : regions_) {
      if (region.id == id) return region.memory->bytes().data() + RegionHeader::kBytes;
    }
    TANDEM_CHECK(false && "the link's queue let through a region that the sink has not");
    return nullptr;
  }

  Status Open() {
    TANDEM_RETURN_IF_ERROR(worker_.WatchFd(process_.fd()));
    TANDEM_ASSIGN_OR_RETURN(endpoint_, Endpoint::Create(worker_, address_));
    for (const Key& key : keys_) {
      TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<RemoteMemory> memory,
                              RemoteMemory::Map(endpoint_->get(), key.envelope.payload,
                                                key.envelope.base - RegionHeader::kBytes,
                                                key.envelope.length + RegionHeader::kBytes));
      RegionHeader header;
      std::memcpy(&header, memory->bytes().data(), sizeof header);
      if (header.magic != RegionHeader::kMagic || header.incarnation != incarnation_ ||
          header.region != key.id.value() || header.length != key.envelope.length) {
        return FailedPrecondition("region {} is not that of the sink's incarnation", key.id);
      }
      regions_.push_back({key.id, std::move(memory)});
    }
    // Only now is it certain that the keys led to this life of the process.
    if (process_.Gone()) return Unavailable("the sink's process has ended");
    return OkStatus();
  }

  const std::span<const std::byte> memory_;
  const std::uint64_t piece_bytes_;
  Worker& worker_;
  const std::uint64_t incarnation_;
  PeerProcess process_;
  const std::string address_;
  const std::vector<Key> keys_;
  std::unique_ptr<Endpoint> endpoint_;
  std::vector<Mapped> regions_;
  LinkQueue::Item item_;
};

StatusOr<std::unique_ptr<LinkDriver>> MakeDriver(const SourceOptions& options, Worker& worker,
                                                 const SinkDescriptor& sink) {
  TANDEM_ASSIGN_OR_RETURN(Envelope address, Envelope::Open(sink.address));
  if (address.incarnation != sink.incarnation) {
    return FailedPrecondition("the sink's address is of another incarnation");
  }
  std::vector<ShmDriver::Key> keys;
  for (const RegionDescriptor& region : sink.regions) {
    TANDEM_ASSIGN_OR_RETURN(Envelope key, OpenKey(region, sink.incarnation));
    keys.push_back({region.id, std::move(key)});
  }
  TANDEM_ASSIGN_OR_RETURN(PeerProcess process, PeerProcess::Open(sink.process));
  return std::make_unique<ShmDriver>(options, worker, sink.incarnation, std::move(process),
                                     std::move(address.payload), std::move(keys));
}

}  // namespace

StatusOr<std::unique_ptr<Source>> CreateShmSource(const SourceOptions& options,
                                                  SourceEventFn on_event) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker,
                          Worker::Create({.transport = Transport::kUcxShm,
                                          .net_device = {},
                                          .shm_directory = {},
                                          .settings = options.ucx_settings}));
  Worker& borrowed = *worker;
  return std::make_unique<SourceCore>(
      options, std::move(on_event),
      SourceCore::Parts{.poller = std::move(worker),
                        .make_driver =
                            [options, &borrowed](const SinkDescriptor& sink) {
                              return MakeDriver(options, borrowed, sink);
                            },
                        .keep_alive = nullptr});
}

}  // namespace tandem::transfer::ucx
