// Hands out fixed-size KV blocks and takes them back.
//
// Tracks ids, references and states only; the bytes live in KvArena, shaped
//   [num_layers, num_blocks, num_kv_heads, 2 (K, V), block_size, head_dim].
// A block is in one state:
//
//   free ── Allocate ──► used (refs >= 1) ── last Unref ──► free, or cached when retained
//   cached (refs 0, retained) ── Ref ──► used       cached ── Drop ──► free
//   used, not retained, one reference ── Quarantine ──► quarantined ── EndQuarantine ──► free
//
// A quarantined block can neither be referenced nor allocated. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/kv/block_counts.h"
#include "common/kv/ids.h"

namespace tandem::kv {

class BlockPool {
 public:
  // All `capacity` blocks start free. Requires: capacity > 0.
  explicit BlockPool(BlockCount capacity);

  // Appends `count` blocks to `out`, one reference each, in as few runs of consecutive ids as a
  // best fit finds: all of them or none. Errors: ResourceExhausted when fewer are free.
  Status Allocate(BlockCount count, std::vector<BlockId>& out);

  // Requires: used or cached.
  void Ref(BlockId block);
  // Drops one reference. True: that was the last and the block is now cached (it was retained).
  // Requires: used.
  bool Unref(BlockId block);

  // Keeps the block from becoming free when unreferenced. Requires: used, not retained.
  void Retain(BlockId block);
  // Ends Retain; a cached block becomes free. Requires: retained.
  void Drop(BlockId block);

  // Requires: used with one reference, not retained.
  void Quarantine(BlockId block);
  // Requires: quarantined.
  void EndQuarantine(BlockId block);

  std::int32_t refs(BlockId block) const { return refs_[Index(block)]; }
  bool retained(BlockId block) const { return retained_[Index(block)]; }
  bool quarantined(BlockId block) const { return refs_[Index(block)] == kQuarantinedRefs; }
  const BlockCounts& counts() const { return counts_; }

 private:
  static constexpr std::int32_t kQuarantinedRefs = -1;
  std::size_t Index(BlockId block) const;
  void TakeRun(std::int32_t first, std::int32_t count, std::vector<BlockId>& out);
  void Free(BlockId block);

  std::vector<std::int32_t> refs_;  // [capacity]
  std::vector<bool> retained_;      // [capacity]
  BlockCounts counts_;
  std::map<std::int32_t, std::int32_t> runs_;  // first free → length; runs never touch
  std::set<std::pair<std::int32_t, std::int32_t>> by_length_;  // (length, first) of runs_
};

}  // namespace tandem::kv
