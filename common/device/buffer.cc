#include "common/device/buffer.h"

#include <utility>

namespace tandem::device {

Buffer::Buffer(Buffer&& other) noexcept
    : region_(std::exchange(other.region_, {})), owner_(std::move(other.owner_)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  region_ = std::exchange(other.region_, {});
  owner_ = std::move(other.owner_);
  return *this;
}

}  // namespace tandem::device
