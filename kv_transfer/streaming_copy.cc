#include "kv_transfer/streaming_copy.h"

#include <atomic>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem::transfer {
namespace {

using CopyFn = void (*)(std::byte*, const std::byte*, std::size_t);

#if defined(__x86_64__)
// Each takes a destination on a 64-byte line and whole groups of 256 bytes. Four lines a turn keep
// the write-combining buffers full.
__attribute__((target("avx512f"))) void CopyAvx512(std::byte* to, const std::byte* from,
                                                   std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 256) {
    _mm_prefetch(reinterpret_cast<const char*>(from + i + 1024), _MM_HINT_NTA);
    _mm_prefetch(reinterpret_cast<const char*>(from + i + 1152), _MM_HINT_NTA);
    const __m512i a = _mm512_loadu_si512(from + i);
    const __m512i b = _mm512_loadu_si512(from + i + 64);
    const __m512i c = _mm512_loadu_si512(from + i + 128);
    const __m512i d = _mm512_loadu_si512(from + i + 192);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), a);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 64), b);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 128), c);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 192), d);
  }
}

__attribute__((target("avx2"))) void CopyAvx2(std::byte* to, const std::byte* from,
                                              std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(from + i + 1024), _MM_HINT_NTA);
    const auto* source = reinterpret_cast<const __m256i*>(from + i);
    auto* target = reinterpret_cast<__m256i*>(to + i);
    const __m256i a = _mm256_loadu_si256(source);
    const __m256i b = _mm256_loadu_si256(source + 1);
    const __m256i c = _mm256_loadu_si256(source + 2);
    const __m256i d = _mm256_loadu_si256(source + 3);
    _mm256_stream_si256(target, a);
    _mm256_stream_si256(target + 1, b);
    _mm256_stream_si256(target + 2, c);
    _mm256_stream_si256(target + 3, d);
  }
}

CopyFn BestCopy() {
  if (__builtin_cpu_supports("avx512f")) return CopyAvx512;
  if (__builtin_cpu_supports("avx2")) return CopyAvx2;
  return nullptr;
}
#else
CopyFn BestCopy() { return nullptr; }
#endif

}  // namespace

void StreamingCopy(std::byte* to, const std::byte* from, std::size_t bytes) {
  static const CopyFn copy = BestCopy();
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kGroup = 256;
  if (copy == nullptr || bytes < 2 * kGroup) {
    std::memcpy(to, from, bytes);
    return;
  }
  const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  std::memcpy(to, from, head);
  const std::size_t body = (bytes - head) / kGroup * kGroup;
  copy(to + head, from + head, body);
  std::memcpy(to + head + body, from + head + body, bytes - head - body);
}

void StreamingFence() {
#if defined(__x86_64__)
  _mm_sfence();  // after ordinary stores too
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

}  // namespace tandem::transfer
