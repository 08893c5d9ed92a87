// The leaves of a content hash, many at once where the processor can.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/hash128.h"
#include "common/base/sha256_lanes.h"
#include "common/ops/weight_blocks.h"

namespace tandem::model {

// Some rows of a part.
struct Leaf {
  std::size_t part;  // in the list of sources
  std::int64_t first_row;
  std::int64_t rows;

  std::int64_t BytesIn(std::span<const ops::WeightSource> sources) const {
    return rows * sources[part].row_bytes();
  }
};

// One thread's.
class LeafHasher {
 public:
  static constexpr std::size_t kMaxLeaves = Sha256Lanes::kLanes;

  // SHA-256 of the rows of each leaf in our order, into hashes[i] for each i of `chosen`.
  // Requires: at most kMaxLeaves, all of as many bytes.
  void Hash(std::span<const ops::WeightSource> sources, std::span<const Leaf> leaves,
            std::span<const std::size_t> chosen, std::span<Hash128> hashes);

 private:
  static constexpr std::int64_t kStretch = 4096;  // of each leaf at a time; whole blocks

  Hash128 HashOne(const ops::WeightSource& source, const Leaf& leaf);
  void HashLanes(std::span<const ops::WeightSource> sources, std::span<const Leaf> leaves,
                 std::span<const std::size_t> chosen, std::span<Hash128> hashes);

  std::byte room_[kMaxLeaves][kStretch];  // for rows that the file has not together
};

}  // namespace tandem::model
