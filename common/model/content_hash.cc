#include "common/model/content_hash.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "common/model/leaf_hasher.h"
#include "common/ops/weight_blocks.h"

namespace tandem::model {
namespace {

// Part of what a name means: other leaves, other names.
constexpr std::int64_t kLeafBytes = 1 << 20;

// Runs of leaves of one length, the longest first, so that threads end at about the same time.
std::vector<std::vector<std::size_t>> GroupLeaves(const std::vector<ops::WeightSource>& sources,
                                                  const std::vector<Leaf>& leaves) {
  std::map<std::int64_t, std::vector<std::size_t>, std::greater<>> by_bytes;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    by_bytes[leaves[i].BytesIn(sources)].push_back(i);
  }
  std::vector<std::vector<std::size_t>> groups;
  for (const auto& [bytes, all] : by_bytes) {
    for (std::size_t i = 0; i < all.size(); i += LeafHasher::kMaxLeaves) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i);
      const std::size_t count = std::min<std::size_t>(LeafHasher::kMaxLeaves, all.size() - i);
      groups.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(count));
    }
  }
  return groups;
}

void AddPart(const PartRef& ref, const ops::WeightSource& source, Sha256& hash) {
  hash.UpdateU64(static_cast<std::uint64_t>(ref.part));
  hash.UpdateU64(static_cast<std::uint64_t>(ref.layer));
  hash.UpdateU64(static_cast<std::uint64_t>(source.type));
  hash.UpdateU64(static_cast<std::uint64_t>(source.n));
  hash.UpdateU64(static_cast<std::uint64_t>(source.k));
}

}  // namespace

Hash128 ConfigHash(const ModelConfig& config) {
  Sha256 hash;
  hash.Update("tandem model config 2");
  hash.Update(config.ToString());
  hash.UpdateU64(config.rope_divisors.size());
  hash.Update(std::as_bytes(std::span(config.rope_divisors)));
  hash.Update(std::as_bytes(std::span(config.windows)));
  hash.UpdateU64(config.tied_head ? 1 : 0);
  hash.Update(fmt::format("{:a} {:a} {} {:a} {:a} {:a} {:a} {:a}", config.rms_norm_eps,
                          config.rope_theta, static_cast<int>(config.rope_scaling.type),
                          config.rope_scaling.factor, config.rope_scaling.original_context,
                          config.rope_scaling.beta_fast, config.rope_scaling.beta_slow,
                          config.rope_scaling.attention_factor.value_or(0)));
  return hash.Finish128();
}

StatusOr<Hash128> ContentHash(const WeightReader& reader, const ModelConfig& config,
                              ThreadPool& pool, const std::function<void(ByteCount)>& progress) {
  std::vector<PartRef> parts = PartsOf(config);
  // A tied head is the embedding.
  if (config.tied_head) {
    std::erase_if(parts, [](const PartRef& ref) { return ref.part == Part::kEmbedding; });
  }
  std::vector<ops::WeightSource> sources;
  std::vector<Leaf> leaves;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    TANDEM_ASSIGN_OR_RETURN(const ops::WeightSource source, reader.Read(parts[part]));
    const std::int64_t rows = std::max<std::int64_t>(kLeafBytes / source.row_bytes(), 1);
    for (std::int64_t row = 0; row < source.n; row += rows) {
      leaves.push_back({part, row, std::min(rows, source.n - row)});
    }
    sources.push_back(source);
  }
  const std::vector<std::vector<std::size_t>> groups = GroupLeaves(sources, leaves);
  std::vector<Hash128> hashes(leaves.size());
  std::atomic<std::size_t> next{0};
  std::atomic<std::int64_t> done{0};
  pool.Run([&](int thread_idx, int) {
    const auto hasher = std::make_unique<LeafHasher>();
    for (std::size_t i = next++; i < groups.size(); i = next++) {
      hasher->Hash(sources, leaves, groups[i], hashes);
      for (std::size_t leaf : groups[i]) done += leaves[leaf].BytesIn(sources);
      if (thread_idx == 0 && progress) progress(ByteCount(done));
    }
  });
  Sha256 hash;
  const Hash128 config_hash = ConfigHash(config);
  hash.Update(std::as_bytes(std::span(config_hash.bytes)));
  std::size_t leaf = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    AddPart(parts[part], sources[part], hash);
    for (; leaf < leaves.size() && leaves[leaf].part == part; ++leaf) {
      hash.Update(std::as_bytes(std::span(hashes[leaf].bytes)));
    }
  }
  return hash.Finish128();
}

}  // namespace tandem::model
