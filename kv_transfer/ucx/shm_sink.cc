#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kv_transfer/completion_thread.h"
#include "kv_transfer/landing.h"
#include "kv_transfer/ucx/envelope.h"
#include "kv_transfer/ucx/memory.h"
#include "kv_transfer/ucx/shm.h"
#include "kv_transfer/ucx/worker.h"

namespace tandem::transfer::ucx {
namespace {

// What a UCX worker takes of the same file system for its own queues, rounded up (more than 4 MB).
constexpr std::int64_t kUcxOwnBytes = 8 << 20;

class ShmSink final : public Sink {
 public:
  ShmSink(const SinkOptions& options, std::unique_ptr<Worker> worker,
          std::vector<std::unique_ptr<SharedMemory>> memory, std::vector<Landing::Region> regions,
          SinkDescriptor descriptor)
      : memory_(std::move(memory)),
        ranges_(std::move(regions), options.max_tickets),
        descriptor_(std::move(descriptor)),
        thread_(std::move(worker), {.step = [] { return false; },
                                    .next_deadline = [] { return kNever; },
                                    .finish = [this] { memory_.clear(); }}) {}
  ~ShmSink() override { thread_.Stop(); }

  const SinkDescriptor& descriptor() const override { return descriptor_; }
  std::span<std::byte> memory(RegionId id) override { return ranges_.memory(id); }
  DrainProof drain_proof() const override { return DrainProof::kWriter; }
  Status Expect(const Ticket& ticket, std::span<const SinkRange> ranges) override {
    return ranges_.Expect(ticket, ranges);
  }
  void Forget(const Ticket& ticket) override { ranges_.Forget(ticket); }
  ByteCount Received(const Ticket&) const override { return ByteCount(0); }
  SinkStats stats() const override { return {}; }

 private:
  std::vector<std::unique_ptr<SharedMemory>> memory_;
  Landing ranges_;  // only checks what is expected
  const SinkDescriptor descriptor_;
  CompletionThread thread_;  // last: uses all of the above
};

}  // namespace

StatusOr<std::unique_ptr<Sink>> CreateShmSink(const SinkOptions& options, SinkEventFn /*none*/) {
  std::int64_t total = kUcxOwnBytes;
  for (const RegionSpec& spec : options.regions) {
    total += spec.length.value() + static_cast<std::int64_t>(RegionHeader::kBytes);
  }
  TANDEM_RETURN_IF_ERROR(CheckSharedMemoryRoom(options.shm_directory, ByteCount(total)));
  TANDEM_ASSIGN_OR_RETURN(const std::string directory, OwnDirectory(options.shm_directory));
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker,
                          Worker::Create({.transport = Transport::kUcxShm,
                                          .net_device = {},
                                          .shm_directory = directory,
                                          .settings = options.ucx_settings}));
  SinkDescriptor descriptor{.transport = Transport::kUcxShm,
                            .address = {},
                            .process = {},
                            .incarnation = options.incarnation,
                            .regions = {}};
  TANDEM_ASSIGN_OR_RETURN(descriptor.process, ProcessIdentity::Self());
  Envelope address{.incarnation = options.incarnation, .base = 0, .length = 0, .payload = {}};
  TANDEM_ASSIGN_OR_RETURN(address.payload, worker->Address());
  descriptor.address = address.Seal();

  std::vector<std::unique_ptr<SharedMemory>> memory;
  std::vector<Landing::Region> regions;
  for (const RegionSpec& spec : options.regions) {
    const auto length = static_cast<std::uint64_t>(spec.length.value());
    TANDEM_ASSIGN_OR_RETURN(
        std::unique_ptr<SharedMemory> shared,
        SharedMemory::Allocate(*worker, ByteCount(spec.length.value() + RegionHeader::kBytes)));
    const RegionHeader header{
        .incarnation = options.incarnation, .region = spec.id.value(), .length = length};
    std::memcpy(shared->bytes().data(), &header, sizeof header);
    const std::span<std::byte> bytes = shared->bytes().subspan(RegionHeader::kBytes);
    Envelope key{.incarnation = options.incarnation,
                 .base = reinterpret_cast<std::uint64_t>(bytes.data()),
                 .length = length,
                 .payload = {}};
    TANDEM_ASSIGN_OR_RETURN(key.payload, shared->PackKey());
    descriptor.regions.push_back({spec.id, spec.length, key.Seal()});
    regions.push_back({spec.id, bytes});
    memory.push_back(std::move(shared));
  }
  return std::make_unique<ShmSink>(options, std::move(worker), std::move(memory),
                                   std::move(regions), std::move(descriptor));
}

}  // namespace tandem::transfer::ucx
