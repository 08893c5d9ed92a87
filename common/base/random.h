// Random numbers that are functions: SplitMix64 for seeded tests and the simulator, Philox4x32-10
// for sampling. Sources: Steele et al. 2014 (SplitMix); Salmon et al. 2011, "Parallel random
// numbers: as easy as 1, 2, 3".
#pragma once

#include <array>
#include <cstdint>

namespace tandem {

// One step of SplitMix64's output function: a good 64-bit mix.
constexpr std::uint64_t Mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class SplitMix64 {
 public:
  constexpr explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  constexpr std::uint64_t Next() {
    std::uint64_t out = Mix64(state_);
    state_ += 0x9e3779b97f4a7c15u;
    return out;
  }
  // Uniform in [0, bound). Requires: bound > 0.
  constexpr std::uint64_t Below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }
  // Uniform in [0, 1).
  constexpr double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

// Philox4x32-10: four 32-bit words for a 64-bit key and a 128-bit counter.
constexpr std::array<std::uint32_t, 4> Philox(std::uint64_t key,
                                              std::array<std::uint32_t, 4> counter) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
    std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace tandem
