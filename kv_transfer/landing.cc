#include "kv_transfer/landing.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

namespace tandem::transfer {
Landing::Landing(std::vector<Region> regions, std::size_t max_tickets)
    : regions_(std::move(regions)), max_tickets_(max_tickets) {}

std::span<std::byte> Landing::memory(RegionId id) const {
  for (const Region& region : regions_) {
    if (region.id == id) return region.memory;
  }
  return {};
}

Status Landing::Expect(const Ticket& ticket, std::span<const SinkRange> ranges) {
  auto expected = std::make_unique<Expected>();
  for (const SinkRange& range : ranges) {
    const std::size_t bytes = memory(range.region).size();
    if (!Inside(range.offset, range.length, bytes)) {
      return InvalidArgument("a range of {} bytes at {} leaves region {} of {} bytes", range.length,
                             range.offset, range.region, bytes);
    }
    if (range.length > 0) expected->ranges.push_back(range);
  }
  auto& sorted = expected->ranges;
  std::sort(sorted.begin(), sorted.end(), [](const SinkRange& a, const SinkRange& b) {
    return std::tie(a.region, a.offset) < std::tie(b.region, b.offset);
  });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    SinkRange& last = sorted[kept];
    if (sorted[i].region == last.region && sorted[i].offset <= last.offset + last.length) {
      last.length =
          std::max(last.offset + last.length, sorted[i].offset + sorted[i].length) - last.offset;
    } else {
      sorted[++kept] = sorted[i];
    }
  }
  if (!sorted.empty()) sorted.resize(kept + 1);

  WriterLock lock(mutex_);
  auto& slot = expected_[ticket];
  if (slot == nullptr && expected_.size() > max_tickets_) {
    expected_.erase(ticket);
    return ResourceExhausted("the sink already expects {} tickets", max_tickets_);
  }
  if (slot != nullptr) expected->received = slot->received.load();
  slot = std::move(expected);
  return OkStatus();
}

void Landing::Forget(const Ticket& ticket) {
  WriterLock lock(mutex_);
  expected_.erase(ticket);
}

ByteCount Landing::Received(const Ticket& ticket) const {
  ReaderLock lock(mutex_);
  const auto found = expected_.find(ticket);
  return ByteCount(found == expected_.end() ? 0 : found->second->received.load());
}

SinkStats Landing::stats() const {
  return {ByteCount(received_.load()), ByteCount(dropped_.load()), dropped_messages_.load()};
}

Status Landing::Allowed(const Ticket& ticket, std::span<const SinkRange> ranges,
                        std::size_t data_bytes) const {
  const auto found = expected_.find(ticket);
  if (found == expected_.end()) {
    return FailedPrecondition("the sink does not expect this ticket (any more)");
  }
  const std::vector<SinkRange>& allowed = found->second->ranges;
  std::uint64_t total = 0;
  for (const SinkRange& range : ranges) {
    // The last allowed range that begins at or before this one.
    auto after = std::upper_bound(
        allowed.begin(), allowed.end(), range, [](const SinkRange& a, const SinkRange& b) {
          return std::tie(a.region, a.offset) < std::tie(b.region, b.offset);
        });
    const bool inside =
        after != allowed.begin() && std::prev(after)->region == range.region &&
        Inside(range.offset - std::prev(after)->offset, range.length, std::prev(after)->length);
    if (!inside) {
      return FailedPrecondition("{} bytes at {} of region {} are not expected of this ticket",
                                range.length, range.offset, range.region);
    }
    total += range.length;
    if (total > data_bytes) break;
  }
  if (total != data_bytes) {
    return InvalidArgument("the ranges name {} bytes, the message holds {}", total, data_bytes);
  }
  return OkStatus();
}

Status Landing::Take(const Ticket& ticket, std::span<const SinkRange> ranges,
                     std::span<const std::byte> data) {
  ReaderLock lock(mutex_);
  const Status allowed = Allowed(ticket, ranges, data.size());
  const auto bytes = static_cast<std::int64_t>(data.size());
  if (!allowed.ok()) {
    dropped_ += bytes;
    ++dropped_messages_;
    return allowed;
  }
  const std::byte* from = data.data();
  for (const SinkRange& range : ranges) {
    std::memcpy(memory(range.region).data() + range.offset, from, range.length);
    from += range.length;
  }
  expected_.find(ticket)->second->received += bytes;
  received_ += bytes;
  return OkStatus();
}

}  // namespace tandem::transfer
