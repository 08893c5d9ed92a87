#include "kv_transfer/link_queue.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tandem::transfer {
namespace {

// [offset, offset + length) inside [0, bytes), without overflow.
bool Continues(const Write& a, const Write& b) {
  return a.region == b.region && a.source_offset + a.length == b.source_offset &&
         a.sink_offset + a.length == b.sink_offset;
}

std::vector<Write> Merged(std::span<const Write> writes) {
  std::vector<Write> merged;
  merged.reserve(writes.size());
  for (const Write& write : writes) {
    if (write.length == 0) continue;
    if (!merged.empty() && Continues(merged.back(), write)) {
      merged.back().length += write.length;
    } else {
      merged.push_back(write);
    }
  }
  return merged;
}

}  // namespace

LinkQueue::LinkQueue(const Limits& limits, std::span<const RegionDescriptor> regions)
    : limits_(limits) {
  for (const RegionDescriptor& region : regions) {
    region_bytes_[region.id.value()] = static_cast<std::uint64_t>(region.length.value());
  }
}

Status LinkQueue::Check(const Write& write) const {
  if (!Inside(write.source_offset, write.length, limits_.source_bytes)) {
    return InvalidArgument("a write of {} bytes at {} leaves the source's {} bytes", write.length,
                           write.source_offset, limits_.source_bytes);
  }
  const auto region = region_bytes_.find(write.region.value());
  if (region == region_bytes_.end()) {
    return InvalidArgument("the sink has no region {}", write.region);
  }
  if (!Inside(write.sink_offset, write.length, region->second)) {
    return InvalidArgument("a write of {} bytes at {} leaves region {} of {} bytes", write.length,
                           write.sink_offset, write.region, region->second);
  }
  return OkStatus();
}

Status LinkQueue::Put(const Ticket& ticket, std::span<const Write> writes) {
  std::uint64_t bytes = 0;
  for (const Write& write : writes) {
    TANDEM_RETURN_IF_ERROR(Check(write));
    bytes += write.length;
  }
  Entry entry{ticket, Merged(writes), 0, Cookie(0)};
  MutexLock lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (entry.writes.empty()) return OkStatus();
  if (queued_writes_ + entry.writes.size() > limits_.max_writes) {
    return ResourceExhausted("{} writes are queued on the link and {} more exceed its {}",
                             queued_writes_, entry.writes.size(), limits_.max_writes);
  }
  queued_writes_ += entry.writes.size();
  queued_bytes_ += bytes;
  entries_.push_back(std::move(entry));
  return OkStatus();
}

Status LinkQueue::Fence(const Ticket& ticket, Cookie cookie) {
  MutexLock lock(mutex_);
  if (!failure_.ok()) return failure_;
  // Fences have room of their own beside the writes, so that a full queue can still be fenced.
  if (queued_writes_ >= 2 * limits_.max_writes) {
    return ResourceExhausted("{} writes and fences are queued on the link", queued_writes_);
  }
  ++queued_writes_;
  entries_.push_back(Entry{ticket, {}, 0, cookie});
  return OkStatus();
}

bool LinkQueue::Abort(const Ticket& ticket) {
  MutexLock lock(mutex_);
  if (!failure_.ok()) return false;
  for (const Entry& entry : entries_) {
    if (entry.ticket != ticket) continue;
    queued_writes_ -= std::max<std::size_t>(1, entry.writes.size() - entry.next);
    for (std::size_t i = entry.next; i < entry.writes.size(); ++i) {
      queued_bytes_ -= entry.writes[i].length;
    }
  }
  std::erase_if(entries_, [&](const Entry& entry) { return entry.ticket == ticket; });
  aborts_.push_back(ticket);
  return true;
}

LinkStats LinkQueue::stats() const {
  MutexLock lock(mutex_);
  return {ByteCount(static_cast<std::int64_t>(written_bytes_)),
          ByteCount(static_cast<std::int64_t>(queued_bytes_))};
}

LinkQueue::Popped LinkQueue::Pop(const Budget& budget, Item& out) {
  TANDEM_CHECK(budget.bytes > 0 && budget.writes > 0);
  MutexLock lock(mutex_);
  if (entries_.empty()) return Popped::kNothing;
  Entry& entry = entries_.front();
  out.ticket = entry.ticket;
  out.writes.clear();
  out.bytes = 0;
  if (entry.writes.empty()) {
    out.cookie = entry.cookie;
    entries_.pop_front();
    --queued_writes_;
    return Popped::kFence;
  }
  // Entries of one ticket that follow each other are gathered, up to the next fence.
  while (!entries_.empty() && entries_.front().ticket == out.ticket &&
         !entries_.front().writes.empty() && out.writes.size() < budget.writes &&
         out.bytes < budget.bytes) {
    Entry& front = entries_.front();
    Write& write = front.writes[front.next];
    Write piece = write;
    piece.length = std::min(write.length, budget.bytes - out.bytes);
    out.writes.push_back(piece);
    out.bytes += piece.length;
    queued_bytes_ -= piece.length;
    write.source_offset += piece.length;
    write.sink_offset += piece.length;
    write.length -= piece.length;
    if (write.length == 0) {
      --queued_writes_;
      if (++front.next == front.writes.size()) entries_.pop_front();
    }
  }
  return Popped::kWrites;
}

void LinkQueue::TakeAborts(std::vector<Ticket>& out) {
  MutexLock lock(mutex_);
  out.insert(out.end(), aborts_.begin(), aborts_.end());
  aborts_.clear();
}

void LinkQueue::AddWritten(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  written_bytes_ += bytes;
}

void LinkQueue::Fail(const Status& reason) {
  MutexLock lock(mutex_);
  if (!failure_.ok()) return;
  failure_ = reason;
  entries_.clear();
  queued_writes_ = 0;
  queued_bytes_ = 0;
}

}  // namespace tandem::transfer
