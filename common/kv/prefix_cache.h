// Finished blocks findable by the hash of the token prefix they end, and the allocation that evicts
// them when blocks are short: least recently used first, never one that somebody references.
//
// Everything that references a block of `pool` does it through this class. A hit is pinned: one
// reference for the caller. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/hash128.h"
#include "common/base/status.h"
#include "common/kv/block_pool.h"

namespace tandem::kv {

class PrefixCache {
 public:
  explicit PrefixCache(BlockCount capacity);

  // As BlockPool::Allocate, after evicting as many unreferenced cached blocks as it takes.
  // Errors: ResourceExhausted, with nothing evicted, when even that is not enough.
  Status Allocate(BlockCount count, std::vector<BlockId>& out);
  void Ref(BlockId block) { Pin(block); }
  // Drops one reference of each, the last first: a prefix outlives what follows it.
  void Unref(std::span<const BlockId> blocks);

  // Appends the blocks of the longest held prefix of `hashes`, one reference each, at most `most`.
  void Match(std::span<const Hash128> hashes, BlockCount most, std::vector<BlockId>& out);
  // How many Match would append.
  BlockCount Holds(std::span<const Hash128> hashes) const;
  // Makes a used block findable; from now on it may not be written. False, and nothing changes,
  // when the hash is known already or the block is.
  bool Insert(const Hash128& hash, BlockId block);

  // Requires: one reference, not findable (a remote writer's target never is).
  void Quarantine(BlockId block) { pool_.Quarantine(block); }
  void EndQuarantine(BlockId block) { pool_.EndQuarantine(block); }

  const BlockCounts& counts() const { return pool_.counts(); }
  std::int32_t refs(BlockId block) const { return pool_.refs(block); }
  std::size_t size() const { return by_hash_.size(); }

  // Changes after the first `since`, at most `most` of them; returns the next `since`. Changes
  // older than the log are left out: readers use them as hints.
  std::uint64_t Changes(std::uint64_t since, std::size_t most, std::vector<Hash128>& added,
                        std::vector<Hash128>& removed) const;

 private:
  static constexpr std::int32_t kNone = -1;
  static constexpr std::size_t kLogMax = 1 << 14;
  struct Change {
    Hash128 hash;
    bool added;
  };
  struct Entry {  // of a findable block
    Hash128 hash;
    std::int32_t older = kNone;  // the idle list; only while unreferenced
    std::int32_t newer = kNone;
  };
  void Pin(BlockId block);
  void EvictOldest();
  void LinkNewest(std::int32_t block);
  void Unlink(std::int32_t block);
  void Log(const Hash128& hash, bool added);

  BlockPool pool_;
  absl::flat_hash_map<Hash128, BlockId> by_hash_;
  std::vector<Entry> entries_;  // [capacity]
  std::int32_t oldest_ = kNone;
  std::int32_t newest_ = kNone;
  std::deque<Change> log_;
  std::uint64_t log_first_ = 0;  // number of log_.front()
};

}  // namespace tandem::kv
