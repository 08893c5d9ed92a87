// A language model in a few lines: the next token is a hash of all previous ids, the position and
// the seed, computed from the KV that an engine would read. So a block that is missing, stale or
// another sequence's gives another token.
//
// KV of token i in one layer is KvValue(state_i, layer); state_i chains the tokens 0..i.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/random.h"
#include "common/base/units.h"
#include "common/handoff/messages.h"
#include "common/sequence/sampling_params.h"

namespace tandem::sim {

inline constexpr std::int32_t kVocabulary = 997;

inline std::uint64_t NextState(std::uint64_t state, TokenId token) {
  return Mix64(state * 3 + static_cast<std::uint64_t>(token.value()) + 1);
}
inline std::uint64_t KvValue(std::uint64_t state, std::int32_t layer) {
  return Mix64(state ^ (static_cast<std::uint64_t>(layer + 1) << 56));
}
// `kv_sum`: of the KvValues of every layer of all tokens.
inline TokenId SampleToken(std::uint64_t kv_sum, Position position, std::uint64_t seed) {
  const std::uint64_t mixed =
      Mix64(kv_sum + Mix64(seed) + static_cast<std::uint64_t>(position.value()) * 7919);
  return TokenId(static_cast<std::int32_t>(mixed % kVocabulary));
}

// A request's seed can say that it is poison (its step kills the worker) or hopeless (nothing can
// be sampled for it), and for which roles: 1 prefill, 2 decode.
inline constexpr std::uint64_t kPoisonSeed = 0x7015'0000'0000'0000;
inline constexpr std::uint64_t kHopelessSeed = 0x40be'0000'0000'0000;
inline bool IsMarked(std::uint64_t seed, std::uint64_t mark) { return seed >> 48 == mark >> 48; }
inline bool IsMarked(std::uint64_t seed, std::uint64_t mark, handoff::Role role) {
  return IsMarked(seed, mark) && (seed & (role == handoff::Role::kPrefill ? 1 : 2)) != 0;
}
inline bool Poisons(std::uint64_t seed, handoff::Role role) {
  return IsMarked(seed, kPoisonSeed, role);
}
inline bool Hopeless(std::uint64_t seed, handoff::Role role) {
  return IsMarked(seed, kHopelessSeed, role);
}

// What a client of an undisturbed model gets: all tokens up to the stop or the limit.
inline TokenIds ReferenceStream(std::span<const TokenId> prompt,
                                const sequence::SamplingParams& params, std::int32_t num_layers) {
  TokenIds out;
  std::uint64_t state = 0, sum = 0;
  auto add = [&](TokenId token) {
    state = NextState(state, token);
    for (std::int32_t layer = 0; layer < num_layers; ++layer) sum += KvValue(state, layer);
  };
  for (TokenId token : prompt) add(token);
  while (static_cast<std::int32_t>(out.size()) < params.max_tokens.value()) {
    const Position position(static_cast<std::int32_t>(out.size()));
    out.push_back(SampleToken(sum, position, params.seed));
    if (params.Stops(out.back())) break;
    add(out.back());
  }
  return out;
}

}  // namespace tandem::sim
