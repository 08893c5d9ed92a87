// The bytes of the KV cache: what BlockPool's ids stand for.
#pragma once

#include "common/base/status.h"
#include "common/device/buffer.h"
#include "common/device/device.h"
#include "common/device/memory.h"
#include "common/kv/ids.h"
#include "common/kv/layout.h"

namespace tandem::engine {

// One KV group's arena: [num_layers, num_blocks, num_kv_heads, 2 (K, V), block_size, head_dim].
// Over memory of its own, or over a region that somebody else made (a transport's registered
// memory) and keeps alive longer than this. Fresh memory must be zero: own memory is, a region's
// maker sees to it. Later the engine keeps the rule that unwritten slots of a block are zero: the
// first token of a block clears the slots behind it.
//
// Not thread-safe beyond what the blocks' owners agree on: bytes are written by the engine's thread
// (and its pool) and by remote writers into reserved blocks. The const methods may be called from
// any thread.
class KvArena {
 public:
  // Own memory on `device`. Errors: InvalidArgument for a bad layout or no block;
  // ResourceExhausted.
  static StatusOr<KvArena> Allocate(const kv::KvLayout& layout, kv::BlockCount num_blocks,
                                    device::Device& device);
  // Over `region`, of at least RequiredBytes. Errors: InvalidArgument when it is too short, not
  // aligned to 64 bytes, or the layout is bad.
  static StatusOr<KvArena> Over(const kv::KvLayout& layout, kv::BlockCount num_blocks,
                                device::MemoryRegion region);
  static ByteCount RequiredBytes(const kv::KvLayout& layout, kv::BlockCount num_blocks) {
    return layout.arena_bytes(num_blocks);
  }

  const kv::KvLayout& layout() const { return layout_; }
  kv::BlockCount num_blocks() const { return num_blocks_; }
  // The whole arena.
  const device::MemoryRegion& region() const { return region_; }
  // All blocks of one layer. Requires: `layer` is of the layout.
  device::MemoryRegion LayerRegion(kv::Layer layer) const;
  // One (layer, block). Requires: both are of this arena.
  device::MemoryRegion BlockRegion(kv::Layer layer, kv::BlockId block) const;

 private:
  KvArena(const kv::KvLayout& layout, kv::BlockCount num_blocks, device::MemoryRegion region,
          device::Buffer buffer);

  kv::KvLayout layout_;
  kv::BlockCount num_blocks_;
  device::MemoryRegion region_;
  device::Buffer buffer_;  // empty when the memory is somebody else's
};

}  // namespace tandem::engine
