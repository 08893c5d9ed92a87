// Memory that a device gave out.
#pragma once

#include <memory>

#include "common/device/memory.h"

namespace tandem::device {

// Owns one allocation; gives it back on destruction. Move-only; regions and views made from it stay
// valid when it is moved. No thread rule of its own: the bytes are plain memory.
class Buffer {
 public:
  // Knows how its memory is given back: one implementation a device.
  class Owner {
   public:
    virtual ~Owner() = default;
  };

  Buffer() = default;
  Buffer(MemoryRegion region, std::unique_ptr<Owner> owner)
      : region_(region), owner_(std::move(owner)) {}
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  const MemoryRegion& region() const { return region_; }
  ByteCount size() const { return region_.length; }
  MemoryType memory_type() const { return region_.type; }

 private:
  MemoryRegion region_;
  std::unique_ptr<Owner> owner_;
};

}  // namespace tandem::device
