#include "common/kv/span_checksum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "common/base/check.h"
#include "common/base/random.h"

namespace tandem::kv {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as little-endian");

// Word i of a span is masked with kMasks[i % 64]; spans longer than 512 bytes mix the sum in
// between, so that a word's place still counts.
constexpr std::size_t kStripeWords = 64;
constexpr std::array<std::uint64_t, kStripeWords> kMasks = [] {
  std::array<std::uint64_t, kStripeWords> masks{};
  SplitMix64 random(0x7461'6e64'656d'6b76u);
  for (auto& mask : masks) mask = random.Next();
  return masks;
}();

std::uint64_t Load(const std::byte* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// The halves of a 128-bit product folded together, with both factors kept in, so that a zero factor
// does not hide the other.
std::uint64_t Fold(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return (static_cast<std::uint64_t>(product) ^ a) +
         (static_cast<std::uint64_t>(product >> 64) ^ std::rotl(b, 32));
}

std::uint64_t Stripe(const std::byte* p, std::size_t bytes) {
  // Four chains keep the multiplier busy.
  std::uint64_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  std::size_t i = 0;  // words
  for (; (i + 8) * 8 <= bytes; i += 8) {
    const std::byte* q = p + i * 8;
    s0 += Fold(Load(q) ^ kMasks[i], Load(q + 8) ^ kMasks[i + 1]);
    s1 += Fold(Load(q + 16) ^ kMasks[i + 2], Load(q + 24) ^ kMasks[i + 3]);
    s2 += Fold(Load(q + 32) ^ kMasks[i + 4], Load(q + 40) ^ kMasks[i + 5]);
    s3 += Fold(Load(q + 48) ^ kMasks[i + 6], Load(q + 56) ^ kMasks[i + 7]);
  }
  for (; i * 8 < bytes; i += 2) {
    std::array<std::byte, 16> tail{};
    std::memcpy(tail.data(), p + i * 8, std::min<std::size_t>(16, bytes - i * 8));
    s0 += Fold(Load(tail.data()) ^ kMasks[i], Load(tail.data() + 8) ^ kMasks[i + 1]);
  }
  return s0 + s1 + s2 + s3;
}

std::uint64_t HashSpan(const std::byte* p, std::size_t bytes, std::uint64_t salt) {
  constexpr std::size_t kStripeBytes = kStripeWords * 8;
  std::uint64_t sum = 0;
  while (bytes > kStripeBytes) {
    sum = Mix64(sum + Stripe(p, kStripeBytes));
    p += kStripeBytes;
    bytes -= kStripeBytes;
  }
  return Mix64((sum + Stripe(p, bytes)) ^ salt);
}

}  // namespace

std::uint64_t SpanChecksum(const KvLayout& layout, Layer layer, TokenIndex first_token,
                           std::int32_t num_tokens, std::span<const std::byte> block) {
  TANDEM_CHECK(num_tokens >= 0 && num_tokens <= layout.block_size);
  TANDEM_CHECK(block.size() == static_cast<std::size_t>(layout.block_bytes().value()));
  const std::size_t token_bytes =
      static_cast<std::size_t>(layout.head_dim) * static_cast<std::size_t>(layout.element_bytes());
  const std::size_t part_bytes = token_bytes * static_cast<std::size_t>(layout.block_size);
  std::uint64_t sum = 0;
  const std::byte* part_start = block.data();
  for (std::int32_t head = 0; head < layout.num_kv_heads; ++head) {
    for (std::uint32_t part = 0; part < 2; ++part, part_start += part_bytes) {
      // One seed a (layer, head, part); the token is added before the second mix.
      const std::uint64_t place = Mix64(static_cast<std::uint64_t>(layer.value()) << 32 |
                                        static_cast<std::uint64_t>(head) << 1 | part);
      const std::byte* p = part_start;
      for (std::int32_t t = 0; t < num_tokens; ++t, p += token_bytes) {
        const auto token = static_cast<std::uint64_t>(first_token.value() + t);
        sum += HashSpan(p, token_bytes, Mix64(place + token));
      }
    }
  }
  return sum;
}

}  // namespace tandem::kv
