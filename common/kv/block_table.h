// A sequence's blocks in token order: token i lives in blocks()[i / block_size]. Ids only; who owns
// the references is the owner's business. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/units.h"
#include "common/kv/ids.h"

namespace tandem::kv {

class BlockTable {
 public:
  explicit BlockTable(std::int32_t block_size) : block_size_(block_size) {}

  std::vector<BlockId>& mutable_blocks() { return blocks_; }
  std::span<const BlockId> blocks() const { return blocks_; }
  BlockCount size() const { return BlockCount(static_cast<std::int32_t>(blocks_.size())); }
  // Tokens that fit.
  TokenCount capacity() const {
    return TokenCount(static_cast<std::int32_t>(blocks_.size()) * block_size_);
  }
  // Blocks to add so that `tokens` fit.
  BlockCount Lacks(TokenCount tokens) const {
    const std::int32_t need = (tokens.value() + block_size_ - 1) / block_size_;
    return BlockCount(std::max(need - static_cast<std::int32_t>(blocks_.size()), 0));
  }

 private:
  std::int32_t block_size_;
  std::vector<BlockId> blocks_;
};

}  // namespace tandem::kv
