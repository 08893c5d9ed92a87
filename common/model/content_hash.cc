#include "common/model/content_hash.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/ops/weight_blocks.h"

namespace tandem::model {
namespace {

// Part of what a name means: other leaves, other names.
constexpr std::int64_t kLeafBytes = 1 << 20;

struct Leaf {
  std::size_t part;  // in the list of parts
  std::int64_t first_row;
  std::int64_t rows;
};

Hash128 HashLeaf(const ops::WeightSource& source, const Leaf& leaf) {
  Sha256 hash;
  const auto row_bytes = static_cast<std::size_t>(source.row_bytes());
  if (source.interleaved == 0) {
    hash.Update({source.row(leaf.first_row), row_bytes * static_cast<std::size_t>(leaf.rows)});
  } else {
    for (std::int64_t i = 0; i < leaf.rows; ++i) {
      hash.Update({source.row(leaf.first_row + i), row_bytes});
    }
  }
  return hash.Finish128();
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
  std::vector<Hash128> hashes(leaves.size());
  std::atomic<std::size_t> next{0};
  std::atomic<std::int64_t> done{0};
  pool.Run([&](int thread_idx, int) {
    for (std::size_t i = next++; i < leaves.size(); i = next++) {
      const ops::WeightSource& source = sources[leaves[i].part];
      hashes[i] = HashLeaf(source, leaves[i]);
      done += leaves[i].rows * source.row_bytes();
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
