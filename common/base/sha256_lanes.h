// SHA-256 of sixteen messages of equal length at once. With AVX-512 that takes the time of about
// eight one after another with the processor's SHA instructions, of three without those.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/base/cpu_features.h"
#include "common/base/hash128.h"

namespace tandem {

// Not thread-safe.
class Sha256Lanes {
 public:
  static constexpr int kLanes = 16;
  static constexpr std::int64_t kBlockBytes = 64;
  using Lanes = std::array<const std::byte*, kLanes>;

  // Whether this machine can. All else requires it.
  static bool Works(const CpuFeatures& cpu);

  Sha256Lanes();
  // The next `blocks` blocks of each message.
  void Update(const Lanes& lanes, std::int64_t blocks);
  // The last `bytes` of each, less than a block; then the digests' first 16 bytes, which end it.
  std::array<Hash128, kLanes> Finish128(const Lanes& lanes, std::int64_t bytes);

 private:
  alignas(64) std::uint32_t state_[8][kLanes];  // word by word
  std::uint64_t blocks_ = 0;                    // so far
};

}  // namespace tandem
