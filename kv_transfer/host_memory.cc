#include "kv_transfer/host_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

namespace tandem::transfer {

StatusOr<HostMemory> HostMemory::Allocate(ByteCount bytes) {
  const ByteCount available = AvailableMemory();
  if (bytes > available) {
    return ResourceExhausted("need {} bytes of memory, {} are available: use fewer KV blocks",
                             bytes, available);
  }
  const auto size = static_cast<std::size_t>(bytes.value());
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return ResourceExhausted("cannot map {} bytes: {}", bytes, std::strerror(errno));
  }
  ::madvise(address, size, MADV_HUGEPAGE);  // best effort: faster copies
  return HostMemory({static_cast<std::byte*>(address), size});
}

HostMemory::~HostMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

ByteCount AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::int64_t kib = 0;
  std::string unit;
  while (file >> name >> kib) {
    std::getline(file, unit);
    if (name == "MemAvailable:") return ByteCount(kib * 1024);
  }
  return ByteCount(std::numeric_limits<std::int64_t>::max());
}

}  // namespace tandem::transfer
