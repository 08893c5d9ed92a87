// The KV bytes of one simulated worker: one state per (layer, block, slot), and who may be writing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/kv/ids.h"
#include "deploy/sim/token_model.h"

namespace tandem::sim {

class Arena {
 public:
  Arena(std::int32_t num_layers, std::int32_t num_blocks, std::int32_t block_size)
      : num_blocks_(num_blocks),
        block_size_(block_size),
        states_(static_cast<std::size_t>(num_layers) * static_cast<std::size_t>(num_blocks) *
                static_cast<std::size_t>(block_size)) {}

  std::uint64_t& State(std::int32_t layer, kv::BlockId block, std::int32_t slot) {
    return states_[static_cast<std::size_t>(
        (std::int64_t{layer} * num_blocks_ + block.value()) * block_size_ + slot)];
  }
  // Of token `index` of a sequence.
  std::uint64_t& State(std::int32_t layer, std::span<const kv::BlockId> table, std::int32_t index) {
    return State(layer, table[static_cast<std::size_t>(index / block_size_)], index % block_size_);
  }
  std::int32_t block_size() const { return block_size_; }

 private:
  std::int32_t num_blocks_;
  std::int32_t block_size_;
  std::vector<std::uint64_t> states_;
};

}  // namespace tandem::sim
