#include "common/base/sha256_lanes.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/base/sha256_avx512.h"

namespace tandem {
namespace {

void Compress(std::uint32_t (*state)[Sha256Lanes::kLanes], const Sha256Lanes::Lanes& lanes,
              std::int64_t blocks) {
#if defined(TANDEM_BASE_SIMD)
  const std::uint8_t* bytes[Sha256Lanes::kLanes];
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    bytes[i] = reinterpret_cast<const std::uint8_t*>(lanes[i]);
  }
  Sha256Avx512(state, bytes, blocks);
#else
  TANDEM_CHECK(false && state && lanes.data() && blocks);
#endif
}

}  // namespace

bool Sha256Lanes::Works([[maybe_unused]] const CpuFeatures& cpu) {
#if defined(TANDEM_BASE_SIMD)
  return cpu.avx512;
#else
  return false;
#endif
}

Sha256Lanes::Sha256Lanes() {
  constexpr std::uint32_t kInitial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  for (int word = 0; word < 8; ++word) std::fill_n(state_[word], kLanes, kInitial[word]);
}

void Sha256Lanes::Update(const Lanes& lanes, std::int64_t blocks) {
  Compress(state_, lanes, blocks);
  blocks_ += static_cast<std::uint64_t>(blocks);
}

std::array<Hash128, Sha256Lanes::kLanes> Sha256Lanes::Finish128(const Lanes& lanes,
                                                                std::int64_t bytes) {
  TANDEM_CHECK(bytes >= 0 && bytes < kBlockBytes);
  // A one bit, zeros, and the length in bits, most significant byte first: a block or two.
  std::array<std::array<std::byte, 2 * kBlockBytes>, kLanes> last{};
  const std::size_t padded = bytes + 9 <= kBlockBytes ? kBlockBytes : 2 * kBlockBytes;
  const std::uint64_t bits =
      (blocks_ * kBlockBytes + static_cast<std::uint64_t>(bytes)) * std::uint64_t{8};
  Lanes ends{};
  for (std::size_t lane = 0; lane < last.size(); ++lane) {
    std::memcpy(last[lane].data(), lanes[lane], static_cast<std::size_t>(bytes));
    last[lane][static_cast<std::size_t>(bytes)] = std::byte{0x80};
    for (std::size_t i = 0; i < 8; ++i) {
      last[lane][padded - 1 - i] = static_cast<std::byte>(bits >> 8 * i);
    }
    ends[lane] = last[lane].data();
  }
  Compress(state_, ends, static_cast<std::int64_t>(padded) / kBlockBytes);
  std::array<Hash128, kLanes> out;
  for (std::size_t lane = 0; lane < out.size(); ++lane) {
    for (std::size_t i = 0; i < out[lane].bytes.size(); ++i) {
      out[lane].bytes[i] = static_cast<std::uint8_t>(state_[i / 4][lane] >> (24 - i % 4 * 8));
    }
  }
  return out;
}

}  // namespace tandem
