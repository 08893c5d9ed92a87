#include "common/engine/kv_arena.h"

#include <cstdint>
#include <utility>

#include "common/base/check.h"

namespace tandem::engine {
namespace {

constexpr std::uintptr_t kAlignment = 64;

Status CheckShape(const kv::KvLayout& layout, kv::BlockCount num_blocks) {
  TANDEM_RETURN_IF_ERROR(layout.Validate());
  if (num_blocks.value() < 1) {
    return InvalidArgument("a KV arena needs at least one block, {} asked for", num_blocks);
  }
  return OkStatus();
}

}  // namespace

StatusOr<KvArena> KvArena::Allocate(const kv::KvLayout& layout, kv::BlockCount num_blocks,
                                    device::Device& device) {
  TANDEM_RETURN_IF_ERROR(CheckShape(layout, num_blocks));
  TANDEM_ASSIGN_OR_RETURN(device::Buffer buffer,
                          device.Allocate(RequiredBytes(layout, num_blocks)));
  const device::MemoryRegion region = buffer.region();
  return KvArena(layout, num_blocks, region, std::move(buffer));
}

StatusOr<KvArena> KvArena::Over(const kv::KvLayout& layout, kv::BlockCount num_blocks,
                                device::MemoryRegion region) {
  TANDEM_RETURN_IF_ERROR(CheckShape(layout, num_blocks));
  const ByteCount required = RequiredBytes(layout, num_blocks);
  if (region.length < required) {
    return InvalidArgument("a KV arena of {} blocks of {} needs {} bytes, the region has {}",
                           num_blocks, layout.ToString(), required, region.length);
  }
  if (region.address == nullptr ||
      reinterpret_cast<std::uintptr_t>(region.address) % kAlignment != 0) {
    return InvalidArgument("a KV arena's region must be aligned to {} bytes, not at {:#x}",
                           kAlignment, reinterpret_cast<std::uintptr_t>(region.address));
  }
  return KvArena(layout, num_blocks, region.Slice(ByteCount(0), required), device::Buffer());
}

KvArena::KvArena(const kv::KvLayout& layout, kv::BlockCount num_blocks, device::MemoryRegion region,
                 device::Buffer buffer)
    : layout_(layout), num_blocks_(num_blocks), region_(region), buffer_(std::move(buffer)) {}

device::MemoryRegion KvArena::LayerRegion(kv::Layer layer) const {
  TANDEM_CHECK(layer.value() >= 0 && layer.value() < layout_.num_layers);
  return region_.Slice(layout_.Offset(layer, kv::BlockId(0), num_blocks_),
                       ByteCount(num_blocks_.value() * layout_.block_bytes().value()));
}

device::MemoryRegion KvArena::BlockRegion(kv::Layer layer, kv::BlockId block) const {
  TANDEM_CHECK(layer.value() >= 0 && layer.value() < layout_.num_layers);
  TANDEM_CHECK(block.value() >= 0 && block.value() < num_blocks_.value());
  return region_.Slice(layout_.Offset(layer, block, num_blocks_), layout_.block_bytes());
}

}  // namespace tandem::engine
