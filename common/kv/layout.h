// Where a KV byte lives: the shape of one KV group's arena.
//
//   arena: [num_layers, num_blocks, num_kv_heads, 2 (K, V), block_size, head_dim]
//
// A (layer, block) is contiguous, and so is a range of heads inside it. Keys are stored after RoPE.
// Slots of a block that no token has written are zero.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/kv/ids.h"

namespace tandem::kv {

enum class KvDtype : std::uint8_t { kF32 = 0, kBf16 = 1 };

struct KvLayout {
  std::int32_t num_layers = 0;
  std::int32_t num_kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t block_size = 16;  // tokens
  KvDtype dtype = KvDtype::kF32;

  bool operator==(const KvLayout&) const = default;
  // Errors: InvalidArgument naming the first field that is not positive or too large.
  Status Validate() const;

  std::int64_t element_bytes() const { return dtype == KvDtype::kF32 ? 4 : 2; }
  // One (layer, block).
  ByteCount block_bytes() const {
    return ByteCount(std::int64_t{2} * num_kv_heads * block_size * head_dim * element_bytes());
  }
  // All layers of one block.
  ByteCount bytes_per_block() const { return ByteCount(num_layers * block_bytes().value()); }
  ByteCount arena_bytes(BlockCount num_blocks) const {
    return ByteCount(num_blocks.value() * bytes_per_block().value());
  }
  // Byte offset of (layer, block) in an arena of `num_blocks`.
  ByteCount Offset(Layer layer, BlockId block, BlockCount num_blocks) const {
    return ByteCount((std::int64_t{layer.value()} * num_blocks.value() + block.value()) *
                     block_bytes().value());
  }
  BlockCount BlocksFor(TokenCount tokens) const {
    return BlockCount((tokens.value() + block_size - 1) / block_size);
  }
  std::string ToString() const;  // "30 layers x 3 kv heads x 64, block 16, bf16"
};

}  // namespace tandem::kv
