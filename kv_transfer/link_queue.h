// What was put on one link and not yet handed over, in order.
//
// Puts and fences form one queue. The completion thread pops pieces of bounded size; a long write
// is cut, neighbours that continue each other on both sides are merged. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "kv_transfer/transfer.h"

namespace tandem::transfer {

class LinkQueue {
 public:
  struct Limits {
    std::uint64_t source_bytes = 0;
    std::size_t max_writes = 0;
  };
  enum class Popped { kNothing, kWrites, kFence };
  struct Item {
    Ticket ticket;
    std::vector<Write> writes;  // kWrites
    std::uint64_t bytes = 0;
    Cookie cookie;  // kFence
  };
  // How much one Pop may take.
  struct Budget {
    std::uint64_t bytes = 0;  // a longer write is cut here
    std::size_t writes = 0;
  };

  LinkQueue(const Limits& limits, std::span<const RegionDescriptor> regions);

  // As SourceLink's methods of these names.
  Status Put(const Ticket& ticket, std::span<const Write> writes);
  Status Fence(const Ticket& ticket, Cookie cookie);
  // False when the link has failed: LinkFailed was or will be the answer.
  bool Abort(const Ticket& ticket);
  LinkStats stats() const;

  // For the completion thread.
  Popped Pop(const Budget& budget, Item& out);
  // Appends the tickets aborted since the last call; none of them will be popped any more.
  void TakeAborts(std::vector<Ticket>& out);
  void AddWritten(std::uint64_t bytes);
  // From now on Put and Fence return `reason`; the queue is dropped.
  void Fail(const Status& reason);

 private:
  struct Entry {
    Ticket ticket;
    std::vector<Write> writes;  // empty: a fence
    std::size_t next = 0;       // first write not popped
    Cookie cookie;
  };
  Status Check(const Write& write) const;

  const Limits limits_;
  absl::flat_hash_map<std::uint32_t, std::uint64_t> region_bytes_;  // constant after construction
  mutable Mutex mutex_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::size_t queued_writes_ ABSL_GUARDED_BY(mutex_) = 0;  // fences count as one
  std::uint64_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t written_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Ticket> aborts_ ABSL_GUARDED_BY(mutex_);
  Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tandem::transfer
