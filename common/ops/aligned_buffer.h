// Zero-filled bytes on whole pages; from 2 MiB on, aligned to huge pages, which the system is asked
// for: few TLB misses when weights stream through. Move-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/base/status.h"

namespace tandem::ops {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Errors: ResourceExhausted naming the size. Zero bytes give an empty buffer.
  static StatusOr<AlignedBuffer> Allocate(std::int64_t bytes);
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~AlignedBuffer();

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  template <typename T>
  T* As() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace tandem::ops
