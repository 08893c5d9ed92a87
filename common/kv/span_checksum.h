// The checksum of transferred KV: the sum mod 2^64 of a hash of each smallest span (group, layer,
// token, part, head), so that sums of parts, in any order, add up to the sum of the whole. The same
// value on every machine. It finds corruption and misplaced bytes, not an adversary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "common/base/units.h"
#include "common/kv/ids.h"
#include "common/kv/layout.h"

namespace tandem::kv {

// The algorithm's name in Hello.
inline constexpr std::string_view kSpanChecksumName = "span64-v1";

// Sum over the first `num_tokens` tokens of one (layer, block) of group 0, shaped
// [num_kv_heads, 2 (K, V), block_size, head_dim]. `first_token` is the first one's index from the
// prompt's start. About as fast as memory: see kv_transfer/README.md.
// Requires: block.size() == layout.block_bytes(), 0 <= num_tokens <= layout.block_size.
std::uint64_t SpanChecksum(const KvLayout& layout, Layer layer, TokenIndex first_token,
                           std::int32_t num_tokens, std::span<const std::byte> block);

// The same by one implementation, for tests; nothing where this processor lacks it.
enum class ChecksumKernel { kPortable, kAvx2, kAvx512 };
std::optional<std::uint64_t> SpanChecksumBy(ChecksumKernel kernel, const KvLayout& layout,
                                            Layer layer, TokenIndex first_token,
                                            std::int32_t num_tokens,
                                            std::span<const std::byte> block);

}  // namespace tandem::kv
