#include "common/worker/probe_pattern.h"

#include <cstring>

#include "common/base/check.h"

namespace tandem::worker {

void FillProbe(handoff::Incarnation source, std::uint64_t nonce, std::span<std::byte> out) {
  TANDEM_CHECK(out.size() % sizeof(std::uint64_t) == 0);
  SplitMix64 random(source.value() ^ Mix64(nonce));
  for (std::size_t i = 0; i < out.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.Next();
    std::memcpy(out.data() + i, &word, sizeof word);
  }
}

std::uint64_t ProbeChecksum(std::span<const std::byte> bytes) {
  TANDEM_CHECK(bytes.size() % sizeof(std::uint64_t) == 0);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    sum = Mix64(sum ^ word);
  }
  return sum;
}

}  // namespace tandem::worker
