#include "common/device/memory.h"

#include "common/base/check.h"

namespace tandem::device {

std::string_view Name(MemoryType type) {
  switch (type) {
    case MemoryType::kHost:
      return "host";
    case MemoryType::kHostPinned:
      return "pinned host";
    case MemoryType::kCuda:
      return "cuda";
  }
  return "?";
}

StatusOr<std::span<std::byte>> MemoryRegion::HostView() const {
  if (!OnHost()) {
    return FailedPrecondition("{} bytes of {} memory (device {}) are not the host's to touch",
                              length, Name(type), device_index);
  }
  return std::span<std::byte>(address, static_cast<std::size_t>(length.value()));
}

MemoryRegion MemoryRegion::Slice(ByteCount offset, ByteCount slice_length) const {
  TANDEM_CHECK(offset.value() >= 0 && slice_length.value() >= 0 &&
               slice_length.value() <= length.value() - offset.value());
  return {address + offset.value(), slice_length, type, device_index};
}

}  // namespace tandem::device
