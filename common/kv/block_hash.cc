#include "common/kv/block_hash.h"

#include <array>

#include "common/base/check.h"

namespace tandem::kv {

Hash128 MakeRoot(const HashRoot& root) {
  Sha256 sha;
  sha.Update("tandem kv root 1");
  sha.Update(std::as_bytes(std::span(root.model_instance.bytes)));
  sha.UpdateU64(root.numerics.size()).Update(root.numerics);
  sha.UpdateU64(static_cast<std::uint64_t>(root.layout.num_layers));
  sha.UpdateU64(static_cast<std::uint64_t>(root.layout.num_kv_heads));
  sha.UpdateU64(static_cast<std::uint64_t>(root.layout.head_dim));
  sha.UpdateU64(static_cast<std::uint64_t>(root.layout.dtype));
  sha.UpdateU64(root.salt.size()).Update(root.salt);
  return sha.Finish128();
}

Hash128 NextHash(const Hash128& previous, std::span<const TokenId> granule) {
  TANDEM_CHECK(granule.size() == kGranule);
  std::array<std::uint8_t, 16 + 4 * kGranule> bytes;
  std::size_t at = 0;
  for (std::uint8_t b : previous.bytes) bytes[at++] = b;
  for (TokenId token : granule) {
    const auto value = static_cast<std::uint32_t>(token.value());
    for (int shift = 0; shift < 32; shift += 8) {
      bytes[at++] = static_cast<std::uint8_t>(value >> shift);
    }
  }
  return Sha256().Update(std::as_bytes(std::span(bytes))).Finish128();
}

std::vector<Hash128> HashChain(const Hash128& root, std::span<const TokenId> tokens) {
  std::vector<Hash128> hashes;
  ExtendChain(root, tokens, hashes);
  return hashes;
}

void ExtendChain(const Hash128& root, std::span<const TokenId> tokens,
                 std::vector<Hash128>& hashes) {
  const std::size_t full = tokens.size() / kGranule;
  TANDEM_CHECK(hashes.size() <= full);
  hashes.reserve(full);
  for (std::size_t i = hashes.size(); i < full; ++i) {
    hashes.push_back(
        NextHash(i == 0 ? root : hashes[i - 1], tokens.subspan(i * kGranule, kGranule)));
  }
}

std::vector<Hash128> BlockHashes(std::span<const Hash128> chain, std::int32_t block_size) {
  std::vector<Hash128> out;
  if (block_size % kGranule != 0) return out;
  const std::size_t granules = static_cast<std::size_t>(block_size / kGranule);
  for (std::size_t i = granules; i <= chain.size(); i += granules) out.push_back(chain[i - 1]);
  return out;
}

}  // namespace tandem::kv
