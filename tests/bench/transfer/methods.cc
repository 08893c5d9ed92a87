#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "common/base/random.h"
#include "common/kv/span_checksum.h"
#include "kv_transfer/host_memory.h"
#include "kv_transfer/ucx/endpoint.h"
#include "kv_transfer/ucx/envelope.h"
#include "kv_transfer/ucx/worker.h"
#include "tests/bench/transfer/method.h"
#include "tests/bench/transfer/receiver.h"

namespace tandem::transfer::bench {

std::vector<Write> Shape::Writes() const {
  // Block ids in a shuffled order, another one on each side, the same for every layer.
  const auto shuffled = [this](std::uint64_t seed) {
    std::vector<std::uint64_t> ids(blocks);
    for (std::uint64_t i = 0; i < blocks; ++i) ids[i] = i;
    SplitMix64 random(seed);
    for (std::uint64_t i = blocks; i > 1; --i) std::swap(ids[i - 1], ids[random.Below(i)]);
    return ids;
  };
  const auto from = shuffled(1);
  const auto to = shuffled(2);
  std::vector<Write> writes;
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    for (std::uint64_t i = 0; i < blocks; ++i) {
      writes.push_back({(layer * blocks + from[i]) * block_bytes, kBenchRegion,
                        (layer * blocks + to[i]) * block_bytes, block_bytes});
    }
  }
  return writes;
}

namespace {

class Memcpy final : public Method {
 public:
  explicit Memcpy(std::span<const std::byte> memory)
      : memory_(memory), to_(*HostMemory::Allocate(ByteCount(std::ssize(memory)))) {
    std::memset(to_.bytes().data(), 1, to_.bytes().size());
  }
  std::string name() const override { return "memcpy"; }
  double Run(const Shape&, std::span<const Write> writes) override {
    const Time start = SteadyNow();
    for (const Write& write : writes) {
      std::memcpy(to_.bytes().data() + write.sink_offset, memory_.data() + write.source_offset,
                  write.length);
    }
    return ToSeconds(SteadyNow() - start);
  }

 private:
  const std::span<const std::byte> memory_;
  HostMemory to_;
};

// No transfer: what verifying the same bytes costs an end.
class Checksum final : public Method {
 public:
  explicit Checksum(std::span<const std::byte> memory) : memory_(memory) {}
  std::string name() const override { return "checksum"; }
  double Run(const Shape& shape, std::span<const Write> writes) override {
    // Blocks of 16 tokens of bf16: 3 heads of 64 fill 12 kB, 8 of 128 fill 64 kB.
    kv::KvLayout layout{.num_layers = 1,
                        .num_kv_heads = 3,
                        .head_dim = 64,
                        .block_size = 16,
                        .dtype = kv::KvDtype::kBf16};
    if (shape.block_bytes == 65536) layout.num_kv_heads = 8, layout.head_dim = 128;
    TANDEM_CHECK(static_cast<std::uint64_t>(layout.block_bytes().value()) == shape.block_bytes);
    const Time start = SteadyNow();
    for (const Write& write : writes) {
      sum_ += kv::SpanChecksum(layout, kv::Layer(0), TokenIndex(0), 16,
                               memory_.subspan(write.source_offset, write.length));
    }
    const double seconds = ToSeconds(SteadyNow() - start);
    TANDEM_CHECK(sum_ != 0);  // keeps the work
    return seconds;
  }

 private:
  const std::span<const std::byte> memory_;
  std::uint64_t sum_ = 1;
};

class Transferred final : public Method {
 public:
  Transferred(Transport transport, std::span<const std::byte> memory, const UcxSettings& settings)
      : transport_(transport), receiver_([=](Pipe pipe) {
          ServeSink(transport, memory.size(), settings, std::move(pipe));
        }) {
    options_.transport = transport;
    options_.memory = memory;
    options_.net_device = "lo";
    options_.ucx_settings = settings;
  }
  std::string name() const override { return std::string(ToString(transport_)); }
  double Run(const Shape& shape, std::span<const Write> writes) override {
    Connect();
    const Time start = SteadyNow();
    for (std::uint64_t layer = 0; layer < shape.layers; ++layer) {
      TANDEM_CHECK(
          link_->Put(kBenchTicket, writes.subspan(layer * shape.blocks, shape.blocks)).ok());
    }
    TANDEM_CHECK(link_->Fence(kBenchTicket, Cookie(++wanted_)).ok());
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return fenced_ == wanted_; });
    }
    TANDEM_CHECK(receiver_.pipe().Ask("?") == "ok");
    return ToSeconds(SteadyNow() - start);
  }

 private:
  // Late: the other methods must fork first.
  void Connect() {
    if (link_ != nullptr) return;
    std::string descriptor;
    TANDEM_CHECK(receiver_.pipe().Receive(descriptor));
    auto source = CreateSource(options_, [this](const SourceEvent& event) {
      if (const auto* failed = std::get_if<LinkFailed>(&event)) {
        fmt::print(stderr, "{}\n", FromAbsl(failed->reason.message()));
        std::abort();
      }
      if (const auto* fenced = std::get_if<Fenced>(&event)) {
        TANDEM_CHECK(fenced->status.ok());
        std::lock_guard lock(mutex_);
        fenced_ = fenced->cookie.value();
        changed_.notify_all();
      }
    });
    TANDEM_CHECK(source.ok());
    source_ = *std::move(source);
    auto link = source_->Connect(LinkId(1), DecodeSink(descriptor));
    TANDEM_CHECK(link.ok());
    link_ = *std::move(link);
  }

  const Transport transport_;
  SourceOptions options_;
  Receiver receiver_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t fenced_ = 0;
  std::uint64_t wanted_ = 0;
  std::unique_ptr<Source> source_;
  std::unique_ptr<SourceLink> link_;
};

// UCX's own put into the same kind of memory, one a block, then a flush.
class RawPut final : public Method {
 public:
  explicit RawPut(std::span<const std::byte> memory)
      : memory_(memory), receiver_([=](Pipe pipe) {
          ServeSink(Transport::kUcxShm, memory.size(), {}, std::move(pipe));
        }) {}
  ~RawPut() override {
    if (key_ != nullptr) ucp_rkey_destroy(key_);
  }
  std::string name() const override { return "ucp-put"; }
  double Run(const Shape&, std::span<const Write> writes) override {
    Connect();
    ucp_request_param_t params{};
    const Time start = SteadyNow();
    for (const Write& write : writes) {
      Finish(ucp_put_nbx(endpoint_->get(), memory_.data() + write.source_offset, write.length,
                         base_ + write.sink_offset, key_, &params));
    }
    Finish(ucp_ep_flush_nbx(endpoint_->get(), &params));
    TANDEM_CHECK(receiver_.pipe().Ask("?") == "ok");
    return ToSeconds(SteadyNow() - start);
  }

 private:
  void Finish(ucs_status_ptr_t request) {
    TANDEM_CHECK(!UCS_PTR_IS_ERR(request));
    if (request == nullptr) return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS) worker_->Progress();
    ucp_request_free(request);
  }
  void Connect() {
    if (endpoint_ != nullptr) return;
    std::string descriptor;
    TANDEM_CHECK(receiver_.pipe().Receive(descriptor));
    const SinkDescriptor sink = DecodeSink(descriptor);
    worker_ = *ucx::Worker::Create({.transport = Transport::kUcxShm});
    endpoint_ = *ucx::Endpoint::Create(*worker_, ucx::Envelope::Open(sink.address)->payload);
    const ucx::Envelope key = *ucx::Envelope::Open(sink.regions[0].key);
    base_ = key.base;
    TANDEM_CHECK(ucp_ep_rkey_unpack(endpoint_->get(), key.payload.data(), &key_) == UCS_OK);
  }

  const std::span<const std::byte> memory_;
  Receiver receiver_;
  std::unique_ptr<ucx::Worker> worker_;
  std::unique_ptr<ucx::Endpoint> endpoint_;
  ucp_rkey_h key_ = nullptr;
  std::uint64_t base_ = 0;
};

}  // namespace

std::unique_ptr<Method> MakeMemcpy(std::span<const std::byte> memory) {
  return std::make_unique<Memcpy>(memory);
}
std::unique_ptr<Method> MakeChecksum(std::span<const std::byte> memory) {
  return std::make_unique<Checksum>(memory);
}
std::unique_ptr<Method> MakeTransfer(Transport transport, std::span<const std::byte> memory,
                                     UcxSettings settings) {
  return std::make_unique<Transferred>(transport, memory, settings);
}
std::unique_ptr<Method> MakeRawPut(std::span<const std::byte> memory) {
  return std::make_unique<RawPut>(memory);
}

}  // namespace tandem::transfer::bench
