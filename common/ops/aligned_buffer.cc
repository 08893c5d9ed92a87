#include "common/ops/aligned_buffer.h"

#include <sys/mman.h>

namespace tandem::ops {

namespace {

constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;
constexpr std::size_t kPage = 4096;

}  // namespace

StatusOr<AlignedBuffer> AlignedBuffer::Allocate(std::int64_t bytes) {
  AlignedBuffer buffer;
  if (bytes == 0) return buffer;
  if (bytes < 0) return InvalidArgument("a buffer of {} bytes", bytes);
  const auto size = static_cast<std::size_t>(bytes);
  // A huge page begins at a multiple of its size, so whole buffers of them do too.
  const std::size_t slack = size >= kHugePage ? kHugePage : 0;
  void* mapped =
      mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return ResourceExhausted("cannot allocate {} bytes of memory", bytes);
  auto* data = static_cast<std::byte*>(mapped);
  if (slack > 0) {
    const std::size_t before = -reinterpret_cast<std::uintptr_t>(mapped) % kHugePage;
    if (before > 0) munmap(data, before);
    data += before;
    // What is left behind the buffer, but for the page that its end lies in.
    const std::size_t end = (size + kPage - 1) / kPage * kPage;
    if (before + end < size + slack) munmap(data + end, size + slack - before - end);
    // Advice only: without huge pages the buffer works all the same.
    madvise(data, size, MADV_HUGEPAGE);
  }
  buffer.data_ = data;
  buffer.bytes_ = bytes;
  return buffer;
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(bytes_));
}

}  // namespace tandem::ops
