// Merges neighbouring symbols, best rank first, leftmost among equals, until none is left: the
// whole of BPE, and of SPM too, whose scores become ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tandem::tokenizer {

class MergeTable {
 public:
  using Symbol = std::int32_t;  // ids, and symbols of the caller's own beyond them; never negative

  void Reserve(std::size_t merges) { merges_.reserve(merges); }
  // The first rank given to a pair stays.
  void Add(Symbol left, Symbol right, Symbol result, std::uint32_t rank);
  std::size_t size() const { return merges_.size(); }

  // Scratch memory of one caller, kept from piece to piece.
  struct Scratch;
  // Replaces `symbols` by what merging leaves, in O(n log n). Requires: fewer than 2^31 symbols.
  void Merge(std::vector<Symbol>& symbols, Scratch& scratch) const;

  struct Candidate {
    std::uint64_t order;  // rank, then position of the left symbol
    Symbol left;          // what the two were when the candidate was made: stale if they differ now
    Symbol right;
    bool operator>(const Candidate& other) const { return order > other.order; }
  };
  struct Scratch {
    std::vector<Candidate> heap;
    std::vector<std::uint32_t> next;
    std::vector<std::uint32_t> previous;
  };

 private:
  struct Target {
    Symbol result;
    std::uint32_t rank;
  };

  const Target* Find(Symbol left, Symbol right) const;
  void Consider(const std::vector<Symbol>& symbols, std::uint32_t left, std::uint32_t right,
                Scratch& scratch) const;

  absl::flat_hash_map<std::uint64_t, Target> merges_;  // key: left << 32 | right
};

}  // namespace tandem::tokenizer
