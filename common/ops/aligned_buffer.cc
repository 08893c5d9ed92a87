#include "common/ops/aligned_buffer.h"

#include <sys/mman.h>

namespace tandem::ops {

StatusOr<AlignedBuffer> AlignedBuffer::Allocate(std::int64_t bytes) {
  AlignedBuffer buffer;
  if (bytes == 0) return buffer;
  if (bytes < 0) return InvalidArgument("a buffer of {} bytes", bytes);
  void* data = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return ResourceExhausted("cannot allocate {} bytes of memory", bytes);
  constexpr std::int64_t kHugePage = 2 << 20;
  // Advice only: without huge pages the buffer works all the same.
  if (bytes >= kHugePage) madvise(data, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.bytes_ = bytes;
  return buffer;
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(bytes_));
}

}  // namespace tandem::ops
