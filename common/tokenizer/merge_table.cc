#include "common/tokenizer/merge_table.h"

#include <algorithm>
#include <functional>

namespace tandem::tokenizer {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFu;
constexpr MergeTable::Symbol kDead = -1;

std::uint64_t Key(MergeTable::Symbol left, MergeTable::Symbol right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

}  // namespace

void MergeTable::Add(Symbol left, Symbol right, Symbol result, std::uint32_t rank) {
  merges_.try_emplace(Key(left, right), Target{result, rank});
}

const MergeTable::Target* MergeTable::Find(Symbol left, Symbol right) const {
  auto it = merges_.find(Key(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

void MergeTable::Consider(const std::vector<Symbol>& symbols, std::uint32_t left,
                          std::uint32_t right, Scratch& scratch) const {
  const Target* target = Find(symbols[left], symbols[right]);
  if (target == nullptr) return;
  const std::uint64_t order = static_cast<std::uint64_t>(target->rank) << 32 | left;
  scratch.heap.push_back({order, symbols[left], symbols[right]});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), std::greater<>{});
}

void MergeTable::Merge(std::vector<Symbol>& symbols, Scratch& scratch) const {
  const auto count = static_cast<std::uint32_t>(symbols.size());
  if (count < 2) return;
  scratch.heap.clear();
  scratch.next.resize(count);
  scratch.previous.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    scratch.next[i] = i + 1 < count ? i + 1 : kNone;
    scratch.previous[i] = i > 0 ? i - 1 : kNone;
  }
  for (std::uint32_t i = 0; i + 1 < count; ++i) {
    const Target* target = Find(symbols[i], symbols[i + 1]);
    if (target == nullptr) continue;
    scratch.heap.push_back(
        {static_cast<std::uint64_t>(target->rank) << 32 | i, symbols[i], symbols[i + 1]});
  }
  std::make_heap(scratch.heap.begin(), scratch.heap.end(), std::greater<>{});

  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), std::greater<>{});
    const Candidate best = scratch.heap.back();
    scratch.heap.pop_back();
    const auto left = static_cast<std::uint32_t>(best.order);
    if (symbols[left] != best.left) continue;
    const std::uint32_t right = scratch.next[left];
    if (right == kNone || symbols[right] != best.right) continue;

    symbols[left] = Find(best.left, best.right)->result;
    symbols[right] = kDead;
    const std::uint32_t after = scratch.next[right];
    scratch.next[left] = after;
    if (after != kNone) {
      scratch.previous[after] = left;
      Consider(symbols, left, after, scratch);
    }
    if (scratch.previous[left] != kNone) Consider(symbols, scratch.previous[left], left, scratch);
  }
  std::erase(symbols, kDead);
}

}  // namespace tandem::tokenizer
