// A sink's regions and what may be written into them: the check and the copy of transports whose
// bytes pass through the sink's own hands. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "kv_transfer/transfer.h"

namespace tandem::transfer {

class Landing {
 public:
  struct Region {
    RegionId id{0};
    std::span<std::byte> memory;  // outlives the landing
  };
  Landing(std::vector<Region> regions, std::size_t max_tickets);

  std::span<std::byte> memory(RegionId id) const;  // empty: no such region

  // As Sink's methods of these names. Expect also returns ResourceExhausted at `max_tickets`.
  Status Expect(const Ticket& ticket, std::span<const SinkRange> ranges);
  // When it returns, nothing is being copied for `ticket`.
  void Forget(const Ticket& ticket);
  ByteCount Received(const Ticket& ticket) const;
  SinkStats stats() const;

  // Copies `data`, the bytes of `ranges` one behind the other, all or nothing; drops and counts
  // what is not expected. Errors: FailedPrecondition (ticket not expected, or a range outside the
  // expected ones); InvalidArgument (lengths do not add up).
  Status Take(const Ticket& ticket, std::span<const SinkRange> ranges,
              std::span<const std::byte> data);

 private:
  struct Expected {
    std::vector<SinkRange> ranges;  // sorted by (region, offset), neighbours merged
    std::atomic<std::int64_t> received{0};
  };
  Status Allowed(const Ticket& ticket, std::span<const SinkRange> ranges,
                 std::size_t data_bytes) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const std::vector<Region> regions_;
  const std::size_t max_tickets_;
  mutable SharedMutex mutex_;  // held shared while copying
  absl::flat_hash_map<Ticket, std::unique_ptr<Expected>> expected_ ABSL_GUARDED_BY(mutex_);
  std::atomic<std::int64_t> received_{0};
  std::atomic<std::int64_t> dropped_{0};
  std::atomic<std::uint64_t> dropped_messages_{0};
};

}  // namespace tandem::transfer
