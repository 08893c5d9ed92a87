// Where bytes lie: an address means something only together with the kind of memory it is in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/base/status.h"
#include "common/base/units.h"

namespace tandem::device {

enum class MemoryType : std::uint8_t {
  kHost = 0,        // this process's own memory, or memory it shares with other processes
  kHostPinned = 1,  // host memory that a GPU's copy engine may read and write
  kCuda = 2,        // memory of one GPU; the host must not follow the pointer
};
std::string_view Name(MemoryType type);  // "host", "pinned host", "cuda"

// A borrowed run of bytes: whoever made it keeps the memory alive. A value.
struct MemoryRegion {
  std::byte* address = nullptr;
  ByteCount length{0};
  MemoryType type = MemoryType::kHost;
  std::int32_t device_index = 0;  // of kCuda

  bool OnHost() const { return type != MemoryType::kCuda; }
  // The bytes, for the host to read and write.
  // Errors: FailedPrecondition when they are not in host memory.
  StatusOr<std::span<std::byte>> HostView() const;
  // `length` bytes from `offset`. Requires: they lie inside.
  MemoryRegion Slice(ByteCount offset, ByteCount slice_length) const;
};

}  // namespace tandem::device
