#include "common/model/leaf_hasher.h"

#include <algorithm>
#include <cstring>

#include "common/base/cpu_features.h"

namespace tandem::model {
namespace {

// Fewer take less time one by one.
constexpr std::size_t kWorthLanes = 9;

// The leaf's `count` bytes from `offset` on: where they lie, or gathered into `room` (of as many)
// where the file has other rows between its own.
const std::byte* BytesOf(const ops::WeightSource& source, const Leaf& leaf, std::int64_t offset,
                         std::int64_t count, std::byte* room) {
  if (source.interleaved == 0) return source.row(leaf.first_row) + offset;
  const std::int64_t row_bytes = source.row_bytes();
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t row = (offset + done) / row_bytes;
    const std::int64_t inside = (offset + done) % row_bytes;
    const std::int64_t part = std::min(row_bytes - inside, count - done);
    std::memcpy(room + done, source.row(leaf.first_row + row) + inside,
                static_cast<std::size_t>(part));
    done += part;
  }
  return room;
}

}  // namespace

void LeafHasher::Hash(std::span<const ops::WeightSource> sources, std::span<const Leaf> leaves,
                      std::span<const std::size_t> chosen, std::span<Hash128> hashes) {
  if (chosen.size() >= kWorthLanes && Sha256Lanes::Works(DetectCpuFeatures())) {
    return HashLanes(sources, leaves, chosen, hashes);
  }
  for (std::size_t i : chosen) hashes[i] = HashOne(sources[leaves[i].part], leaves[i]);
}

Hash128 LeafHasher::HashOne(const ops::WeightSource& source, const Leaf& leaf) {
  Sha256 hash;
  const std::int64_t bytes = leaf.rows * source.row_bytes();
  for (std::int64_t at = 0; at < bytes; at += kStretch) {
    const std::int64_t count = std::min(kStretch, bytes - at);
    hash.Update({BytesOf(source, leaf, at, count, room_[0]), static_cast<std::size_t>(count)});
  }
  return hash.Finish128();
}

void LeafHasher::HashLanes(std::span<const ops::WeightSource> sources, std::span<const Leaf> leaves,
                           std::span<const std::size_t> chosen, std::span<Hash128> hashes) {
  Sha256Lanes::Lanes lanes;
  const auto point = [&](std::int64_t at, std::int64_t count) {
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const Leaf& leaf = leaves[chosen[i]];
      lanes[i] = BytesOf(sources[leaf.part], leaf, at, count, room_[i]);
    }
    for (std::size_t i = chosen.size(); i < lanes.size(); ++i) lanes[i] = lanes[0];  // for nothing
  };
  Sha256Lanes hash;
  const std::int64_t bytes = leaves[chosen[0]].BytesIn(sources);
  const std::int64_t whole = bytes / Sha256Lanes::kBlockBytes * Sha256Lanes::kBlockBytes;
  for (std::int64_t at = 0; at < whole; at += kStretch) {
    const std::int64_t count = std::min(kStretch, whole - at);
    point(at, count);
    hash.Update(lanes, count / Sha256Lanes::kBlockBytes);
  }
  point(whole, bytes - whole);
  const auto digests = hash.Finish128(lanes, bytes - whole);
  for (std::size_t i = 0; i < chosen.size(); ++i) hashes[chosen[i]] = digests[i];
}

}  // namespace tandem::model
