// Names KV by the tokens that made it: 128 bits of SHA-256, chained over granules of 16 tokens
// whatever the arena's block size.
//
//   hash[0] = H(root, tokens 0..15), hash[i] = H(hash[i-1], tokens 16i..16i+15)
//
// Equal hashes mean equal KV bytes, so the root holds everything else that decides them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/hash128.h"
#include "common/base/units.h"
#include "common/kv/layout.h"

namespace tandem::kv {

inline constexpr std::int32_t kGranule = 16;  // tokens

struct HashRoot {
  Hash128 model_instance{};
  std::string_view numerics = {};  // the numerics class
  KvLayout layout{};               // its heads, width and dtype; not its block size
  std::string_view salt = {};      // the tenant's
};
Hash128 MakeRoot(const HashRoot& root);

// One link of the chain. Requires: granule.size() == kGranule.
Hash128 NextHash(const Hash128& previous, std::span<const TokenId> granule);

// One hash per full granule of `tokens`.
std::vector<Hash128> HashChain(const Hash128& root, std::span<const TokenId> tokens);

// Appends to `hashes`, the chain of `tokens`' beginning, what it lacks.
void ExtendChain(const Hash128& root, std::span<const TokenId> tokens,
                 std::vector<Hash128>& hashes);

// The hash of each full block: every (block_size / kGranule)-th of the chain. Empty where blocks
// are not whole granules: such an arena has no prefix cache.
std::vector<Hash128> BlockHashes(std::span<const Hash128> chain, std::int32_t block_size);

}  // namespace tandem::kv
