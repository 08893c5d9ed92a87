// Anonymous memory of this process, zero at first, aligned to a page.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "common/base/status.h"
#include "common/base/units.h"

namespace tandem::transfer {

class HostMemory {
 public:
  // Errors: ResourceExhausted, with numbers, when the machine has less than `bytes` available.
  static StatusOr<HostMemory> Allocate(ByteCount bytes);
  HostMemory(HostMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HostMemory();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit HostMemory(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

// MemAvailable of /proc/meminfo; the largest number where it cannot be read.
ByteCount AvailableMemory();

}  // namespace tandem::transfer
