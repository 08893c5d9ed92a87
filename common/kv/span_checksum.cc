#include "common/kv/span_checksum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "common/base/check.h"
#include "common/base/random.h"

#if defined(__x86_64__)
// GCC 12 takes the deliberately undefined operand inside its own AVX-512 intrinsics for ours.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#endif

// The hash of one span, read as 64-byte stripes s of eight little-endian words w[j], the last one
// filled with zeros:
//   for each s, j:  d = w[j] ^ (mask[s mod 8][j] + (s div 8) * kStep)
//                   sum[j] += low32(d) * high32(d);  sum[j xor 1] += w[j]
//   hash = Mix64(salt ^ Σ_j rotate_left(sum[j], 8 j))
// The product makes a word's place count; the added word keeps it in where a factor is zero. The
// idea of the accumulation is XXH3's (Y. Collet).

namespace tandem::kv {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as little-endian");

constexpr std::size_t kStripeBytes = 64;
constexpr std::size_t kMaskStripes = 8;
constexpr std::uint64_t kStep = 0x9e37'79b9'7f4a'7c15u;
alignas(64) constexpr std::array<std::uint64_t, kMaskStripes* 8> kMasks = [] {
  std::array<std::uint64_t, kMaskStripes * 8> masks{};
  SplitMix64 random(0x7461'6e64'656d'6b76u);
  for (auto& mask : masks) mask = random.Next();
  return masks;
}();
constexpr std::size_t kAhead = 4096;  // bytes to prefetch before their turn; measured
alignas(64) constexpr std::array<std::uint64_t, 8> kRotations = {0, 8, 16, 24, 32, 40, 48, 56};

// `count` spans that follow each other, of tokens `token`, token + 1, …
struct Spans {
  const std::byte* bytes;
  std::size_t span_bytes;
  std::int32_t count;
  std::uint64_t place;  // (layer, head, part), mixed
  std::uint64_t token;
};

struct Tail {
  explicit Tail(const std::byte* p, std::size_t size) { std::memcpy(bytes.data(), p, size); }
  alignas(64) std::array<std::byte, kStripeBytes> bytes{};
};

std::uint64_t SumPortable(const Spans& spans) {
  std::uint64_t total = 0;
  const std::byte* p = spans.bytes;
  for (std::int32_t t = 0; t < spans.count; ++t, p += spans.span_bytes) {
    std::array<std::uint64_t, 8> sum{};
    for (std::size_t at = 0, s = 0; at < spans.span_bytes; at += kStripeBytes, ++s) {
      const Tail stripe(p + at, std::min(kStripeBytes, spans.span_bytes - at));
      for (std::size_t j = 0; j < 8; ++j) {
        std::uint64_t w;
        std::memcpy(&w, stripe.bytes.data() + 8 * j, 8);
        const std::uint64_t mask = kMasks[s % kMaskStripes * 8 + j] + s / kMaskStripes * kStep;
        const std::uint64_t d = w ^ mask;
        sum[j] += (d & 0xffff'ffff) * (d >> 32);
        sum[j ^ 1] += w;
      }
    }
    std::uint64_t folded = 0;
    for (std::size_t j = 0; j < 8; ++j) {
      folded += std::rotl(sum[j], static_cast<int>(kRotations[j]));
    }
    total += Mix64(folded ^ Mix64(spans.place + spans.token + static_cast<std::uint64_t>(t)));
  }
  return total;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"), always_inline)) inline __m512i Stripe512(__m512i sum,
                                                                           const std::byte* p,
                                                                           std::size_t s) {
  const __m512i w = _mm512_loadu_si512(p);
  __m512i mask = _mm512_load_si512(&kMasks[s % kMaskStripes * 8]);
  if (s >= kMaskStripes) {
    mask =
        _mm512_add_epi64(mask, _mm512_set1_epi64(static_cast<long long>(s / kMaskStripes * kStep)));
  }
  const __m512i d = _mm512_xor_si512(w, mask);
  sum = _mm512_add_epi64(sum, _mm512_mul_epu32(d, _mm512_srli_epi64(d, 32)));
  return _mm512_add_epi64(sum, _mm512_shuffle_epi32(w, _MM_PERM_BADC));
}

__attribute__((target("avx512f"))) std::uint64_t SumAvx512(const Spans& spans) {
  std::uint64_t total = 0;
  const __m512i rotations = _mm512_load_si512(kRotations.data());
  const std::byte* p = spans.bytes;
  for (std::int32_t t = 0; t < spans.count; ++t, p += spans.span_bytes) {
    __m512i sum = _mm512_setzero_si512();
    std::size_t at = 0, s = 0;
    for (; at + kStripeBytes <= spans.span_bytes; at += kStripeBytes) {
      _mm_prefetch(reinterpret_cast<const char*>(p + at) + kAhead, _MM_HINT_T0);
      sum = Stripe512(sum, p + at, s++);
    }
    if (at < spans.span_bytes)
      sum = Stripe512(sum, Tail(p + at, spans.span_bytes - at).bytes.data(), s);
    const __m512i rotated = _mm512_rolv_epi64(sum, rotations);
    const __m256i half =
        _mm256_add_epi64(_mm512_castsi512_si256(rotated), _mm512_extracti64x4_epi64(rotated, 1));
    const __m128i quarter =
        _mm_add_epi64(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const auto folded = static_cast<std::uint64_t>(
        _mm_cvtsi128_si64(_mm_add_epi64(quarter, _mm_unpackhi_epi64(quarter, quarter))));
    total += Mix64(folded ^ Mix64(spans.place + spans.token + static_cast<std::uint64_t>(t)));
  }
  return total;
}

__attribute__((target("avx2"), always_inline)) inline __m256i Half256(__m256i sum,
                                                                      const std::byte* p,
                                                                      const std::uint64_t* masks,
                                                                      std::uint64_t step) {
  const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i mask = _mm256_add_epi64(_mm256_load_si256(reinterpret_cast<const __m256i*>(masks)),
                                        _mm256_set1_epi64x(static_cast<long long>(step)));
  const __m256i d = _mm256_xor_si256(w, mask);
  sum = _mm256_add_epi64(sum, _mm256_mul_epu32(d, _mm256_srli_epi64(d, 32)));
  return _mm256_add_epi64(sum, _mm256_shuffle_epi32(w, 0x4e));
}

__attribute__((target("avx2"), always_inline)) inline __m256i Rotated256(__m256i sum,
                                                                         const std::uint64_t* by) {
  const __m256i left = _mm256_load_si256(reinterpret_cast<const __m256i*>(by));
  const __m256i right = _mm256_sub_epi64(_mm256_set1_epi64x(64), left);
  return _mm256_or_si256(_mm256_sllv_epi64(sum, left), _mm256_srlv_epi64(sum, right));
}

__attribute__((target("avx2"))) std::uint64_t SumAvx2(const Spans& spans) {
  std::uint64_t total = 0;
  const std::byte* p = spans.bytes;
  for (std::int32_t t = 0; t < spans.count; ++t, p += spans.span_bytes) {
    __m256i low = _mm256_setzero_si256();
    __m256i high = _mm256_setzero_si256();
    std::size_t s = 0;
    for (std::size_t at = 0; at < spans.span_bytes; at += kStripeBytes, ++s) {
      const std::uint64_t* masks = &kMasks[s % kMaskStripes * 8];
      const std::uint64_t step = s / kMaskStripes * kStep;
      _mm_prefetch(reinterpret_cast<const char*>(p + at) + kAhead, _MM_HINT_T0);
      if (at + kStripeBytes <= spans.span_bytes) {
        low = Half256(low, p + at, masks, step);
        high = Half256(high, p + at + 32, masks + 4, step);
      } else {
        const Tail tail(p + at, spans.span_bytes - at);
        low = Half256(low, tail.bytes.data(), masks, step);
        high = Half256(high, tail.bytes.data() + 32, masks + 4, step);
      }
    }
    const __m256i half =
        _mm256_add_epi64(Rotated256(low, &kRotations[0]), Rotated256(high, &kRotations[4]));
    const __m128i quarter =
        _mm_add_epi64(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const auto folded = static_cast<std::uint64_t>(
        _mm_cvtsi128_si64(_mm_add_epi64(quarter, _mm_unpackhi_epi64(quarter, quarter))));
    total += Mix64(folded ^ Mix64(spans.place + spans.token + static_cast<std::uint64_t>(t)));
  }
  return total;
}
#endif

using SumFn = std::uint64_t (*)(const Spans&);

SumFn KernelOf(ChecksumKernel kernel) {
#if defined(__x86_64__)
  switch (kernel) {
    case ChecksumKernel::kPortable:
      return SumPortable;
    case ChecksumKernel::kAvx2:
      return __builtin_cpu_supports("avx2") ? SumAvx2 : nullptr;
    case ChecksumKernel::kAvx512:
      return __builtin_cpu_supports("avx512f") ? SumAvx512 : nullptr;
  }
#endif
  return kernel == ChecksumKernel::kPortable ? SumPortable : nullptr;
}

SumFn BestKernel() {
  for (ChecksumKernel kernel : {ChecksumKernel::kAvx512, ChecksumKernel::kAvx2}) {
    if (const SumFn sum = KernelOf(kernel); sum != nullptr) return sum;
  }
  return SumPortable;
}

std::uint64_t SumBlock(SumFn sum, const KvLayout& layout, Layer layer, TokenIndex first_token,
                       std::int32_t num_tokens, std::span<const std::byte> block) {
  TANDEM_CHECK(num_tokens >= 0 && num_tokens <= layout.block_size);
  TANDEM_CHECK(block.size() == static_cast<std::size_t>(layout.block_bytes().value()));
  Spans spans;
  spans.span_bytes =
      static_cast<std::size_t>(layout.head_dim) * static_cast<std::size_t>(layout.element_bytes());
  spans.count = num_tokens;
  spans.bytes = block.data();
  spans.token = static_cast<std::uint64_t>(first_token.value());
  std::uint64_t total = 0;
  for (std::int32_t head = 0; head < layout.num_kv_heads; ++head) {
    for (std::uint64_t part = 0; part < 2; ++part) {
      spans.place = Mix64(static_cast<std::uint64_t>(layer.value()) << 32 |
                          static_cast<std::uint64_t>(head) << 1 | part);
      total += sum(spans);
      spans.bytes += spans.span_bytes * static_cast<std::size_t>(layout.block_size);
    }
  }
  return total;
}

}  // namespace

std::uint64_t SpanChecksum(const KvLayout& layout, Layer layer, TokenIndex first_token,
                           std::int32_t num_tokens, std::span<const std::byte> block) {
  static const SumFn best = BestKernel();
  return SumBlock(best, layout, layer, first_token, num_tokens, block);
}

std::optional<std::uint64_t> SpanChecksumBy(ChecksumKernel kernel, const KvLayout& layout,
                                            Layer layer, TokenIndex first_token,
                                            std::int32_t num_tokens,
                                            std::span<const std::byte> block) {
  const SumFn sum = KernelOf(kernel);
  if (sum == nullptr) return std::nullopt;
  return SumBlock(sum, layout, layer, first_token, num_tokens, block);
}

}  // namespace tandem::kv
