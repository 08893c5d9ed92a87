#include "common/kv/prefix_cache.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::kv {

PrefixCache::PrefixCache(BlockCount capacity)
    : pool_(capacity), entries_(static_cast<std::size_t>(capacity.value())) {}

Status PrefixCache::Allocate(BlockCount count, std::vector<BlockId>& out) {
  const BlockCounts& counts = pool_.counts();
  if (count > counts.available()) {
    return ResourceExhausted("need {} KV blocks, {} free, {} cached", count, counts.free,
                             counts.cached);
  }
  while (counts.free < count) EvictOldest();
  return pool_.Allocate(count, out);
}

void PrefixCache::Pin(BlockId block) {
  if (pool_.refs(block) == 0) Unlink(block.value());
  pool_.Ref(block);
}

void PrefixCache::Unref(std::span<const BlockId> blocks) {
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
    if (pool_.Unref(*it)) LinkNewest(it->value());
  }
}

void PrefixCache::Match(std::span<const Hash128> hashes, BlockCount most,
                        std::vector<BlockId>& out) {
  const BlockCount held = std::min(Holds(hashes), most);
  for (std::size_t i = 0; i < static_cast<std::size_t>(held.value()); ++i) {
    const BlockId block = by_hash_.find(hashes[i])->second;
    Pin(block);
    out.push_back(block);
  }
}

BlockCount PrefixCache::Holds(std::span<const Hash128> hashes) const {
  BlockCount held{0};
  for (const Hash128& hash : hashes) {
    if (!by_hash_.contains(hash)) break;
    ++held;
  }
  return held;
}

bool PrefixCache::Insert(const Hash128& hash, BlockId block) {
  if (pool_.retained(block) || !by_hash_.try_emplace(hash, block).second) return false;
  pool_.Retain(block);
  entries_[static_cast<std::size_t>(block.value())].hash = hash;
  Log(hash, true);
  return true;
}

void PrefixCache::EvictOldest() {
  TANDEM_CHECK(oldest_ != kNone);
  const std::int32_t block = oldest_;
  Unlink(block);
  const Hash128& hash = entries_[static_cast<std::size_t>(block)].hash;
  Log(hash, false);
  by_hash_.erase(hash);
  pool_.Drop(BlockId(block));
}

void PrefixCache::LinkNewest(std::int32_t block) {
  Entry& entry = entries_[static_cast<std::size_t>(block)];
  entry.older = newest_;
  entry.newer = kNone;
  (newest_ == kNone ? oldest_ : entries_[static_cast<std::size_t>(newest_)].newer) = block;
  newest_ = block;
}

void PrefixCache::Unlink(std::int32_t block) {
  const Entry entry = entries_[static_cast<std::size_t>(block)];
  (entry.older == kNone ? oldest_ : entries_[static_cast<std::size_t>(entry.older)].newer) =
      entry.newer;
  (entry.newer == kNone ? newest_ : entries_[static_cast<std::size_t>(entry.newer)].older) =
      entry.older;
}

void PrefixCache::Log(const Hash128& hash, bool added) {
  log_.push_back({hash, added});
  if (log_.size() > kLogMax) {
    log_.pop_front();
    ++log_first_;
  }
}

std::uint64_t PrefixCache::Changes(std::uint64_t since, std::size_t most,
                                   std::vector<Hash128>& added,
                                   std::vector<Hash128>& removed) const {
  const std::uint64_t end = log_first_ + log_.size();
  std::uint64_t next = std::clamp(since, log_first_, end);
  for (; next < end && most > 0; ++next, --most) {
    const Change& change = log_[static_cast<std::size_t>(next - log_first_)];
    (change.added ? added : removed).push_back(change.hash);
  }
  return next;
}

}  // namespace tandem::kv
