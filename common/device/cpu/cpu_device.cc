#include "common/device/cpu/cpu_device.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tandem::device {
namespace {

class Mapping final : public Buffer::Owner {
 public:
  Mapping(void* address, std::size_t size) : address_(address), size_(size) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() override { ::munmap(address_, size_); }

 private:
  void* address_;
  std::size_t size_;
};

// Nothing is ever pending: work is done before the call that asks for it returns.
class CpuEvent final : public Event {
 public:
  StatusOr<bool> Done() override { return true; }
  Status Wait() override { return OkStatus(); }
};

class CpuStream final : public Stream {
 public:
  Status Copy(const MemoryRegion& to, const MemoryRegion& from) override {
    TANDEM_ASSIGN_OR_RETURN(auto target, to.HostView());
    TANDEM_ASSIGN_OR_RETURN(auto source, from.HostView());
    if (target.size() != source.size()) {
      return InvalidArgument("copy of {} bytes into a region of {}", source.size(), target.size());
    }
    if (!target.empty()) std::memmove(target.data(), source.data(), target.size());
    return OkStatus();
  }

  Status FillZero(const MemoryRegion& region) override {
    TANDEM_ASSIGN_OR_RETURN(auto target, region.HostView());
    if (!target.empty()) std::memset(target.data(), 0, target.size());
    return OkStatus();
  }

  Status Record(Event&) override { return OkStatus(); }
  Status After(Event&) override { return OkStatus(); }
  Status Synchronize() override { return OkStatus(); }
};

}  // namespace

StatusOr<Buffer> CpuDevice::Allocate(ByteCount size) {
  if (size.value() < 1) return InvalidArgument("cannot allocate {} bytes", size);
  const auto bytes = static_cast<std::size_t>(size.value());
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return ResourceExhausted("cannot allocate {} bytes of host memory: {}", size,
                             std::strerror(errno));
  }
  ::madvise(address, bytes, MADV_HUGEPAGE);  // a wish: small pages do as well
  auto owner = std::make_unique<Mapping>(address, bytes);
  return Buffer({static_cast<std::byte*>(address), size, MemoryType::kHost, 0}, std::move(owner));
}

StatusOr<std::unique_ptr<Stream>> CpuDevice::CreateStream() {
  return std::unique_ptr<Stream>(std::make_unique<CpuStream>());
}

StatusOr<std::unique_ptr<Event>> CpuDevice::CreateEvent() {
  return std::unique_ptr<Event>(std::make_unique<CpuEvent>());
}

}  // namespace tandem::device
