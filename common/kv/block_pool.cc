#include "common/kv/block_pool.h"

#include <iterator>

#include "common/base/check.h"

namespace tandem::kv {

BlockPool::BlockPool(BlockCount capacity) {
  TANDEM_CHECK(capacity.value() > 0);
  refs_.resize(static_cast<std::size_t>(capacity.value()));
  retained_.resize(refs_.size());
  counts_.total = counts_.free = capacity;
  runs_.emplace(0, capacity.value());
  by_length_.emplace(capacity.value(), 0);
}

std::size_t BlockPool::Index(BlockId block) const {
  const auto index = static_cast<std::size_t>(block.value());
  TANDEM_CHECK(index < refs_.size());  // a negative id is huge here
  return index;
}

Status BlockPool::Allocate(BlockCount count, std::vector<BlockId>& out) {
  if (count > counts_.free) {
    return ResourceExhausted("need {} KV blocks, {} free", count, counts_.free);
  }
  std::int32_t left = count.value();
  while (left > 0) {
    auto fit = by_length_.lower_bound({left, 0});                    // shortest that is long enough
    if (fit == by_length_.end()) fit = std::prev(by_length_.end());  // else the longest
    const auto [length, first] = *fit;
    const std::int32_t taken = std::min(left, length);
    TakeRun(first, taken, out);
    left -= taken;
  }
  return OkStatus();
}

void BlockPool::TakeRun(std::int32_t first, std::int32_t count, std::vector<BlockId>& out) {
  auto run = runs_.find(first);
  const std::int32_t length = run->second;
  by_length_.erase({length, first});
  runs_.erase(run);
  if (length > count) {
    runs_.emplace(first + count, length - count);
    by_length_.emplace(length - count, first + count);
  }
  for (std::int32_t i = first; i < first + count; ++i) {
    refs_[static_cast<std::size_t>(i)] = 1;
    out.push_back(BlockId(i));
  }
  counts_.free -= BlockCount(count);
  counts_.used += BlockCount(count);
}

void BlockPool::Free(BlockId block) {
  std::int32_t first = block.value();
  std::int32_t length = 1;
  auto after = runs_.upper_bound(first);
  if (after != runs_.end() && after->first == first + 1) {
    length += after->second;
    by_length_.erase({after->second, after->first});
    after = runs_.erase(after);
  }
  if (after != runs_.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == first) {
      first = before->first;
      length += before->second;
      by_length_.erase({before->second, before->first});
      runs_.erase(before);
    }
  }
  runs_.emplace(first, length);
  by_length_.emplace(length, first);
  ++counts_.free;
}

void BlockPool::Ref(BlockId block) {
  const std::size_t i = Index(block);
  TANDEM_CHECK(refs_[i] > 0 || (refs_[i] == 0 && retained_[i]));
  if (refs_[i]++ == 0) {
    counts_.cached -= BlockCount(1);
    ++counts_.used;
  }
}

bool BlockPool::Unref(BlockId block) {
  const std::size_t i = Index(block);
  TANDEM_CHECK(refs_[i] > 0);
  if (--refs_[i] > 0) return false;
  counts_.used -= BlockCount(1);
  if (retained_[i]) {
    ++counts_.cached;
    return true;
  }
  Free(block);
  return false;
}

void BlockPool::Retain(BlockId block) {
  const std::size_t i = Index(block);
  TANDEM_CHECK(refs_[i] > 0 && !retained_[i]);
  retained_[i] = true;
}

void BlockPool::Drop(BlockId block) {
  const std::size_t i = Index(block);
  TANDEM_CHECK(retained_[i]);
  retained_[i] = false;
  if (refs_[i] == 0) {
    counts_.cached -= BlockCount(1);
    Free(block);
  }
}

void BlockPool::Quarantine(BlockId block) {
  const std::size_t i = Index(block);
  TANDEM_CHECK(refs_[i] == 1 && !retained_[i]);
  refs_[i] = kQuarantinedRefs;
  counts_.used -= BlockCount(1);
  ++counts_.quarantined;
}

void BlockPool::EndQuarantine(BlockId block) {
  const std::size_t i = Index(block);
  TANDEM_CHECK(refs_[i] == kQuarantinedRefs);
  refs_[i] = 0;
  counts_.quarantined -= BlockCount(1);
  Free(block);
}

}  // namespace tandem::kv
