// Finds a model's packed weights in the cache of its host, or puts them there.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/base/hash128.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/base/units.h"
#include "common/formats/tensor_source.h"
#include "common/model/config.h"
#include "common/model/weight_cache.h"
#include "common/model/weight_file.h"
#include "common/model/weight_plan.h"
#include "common/model/weight_reader.h"

namespace tandem::model {

struct SharedWeights {
  WeightFile file;
  std::string path;
  bool packed;  // by this process
};

// One load of one model: what its content is, and its file. Of processes that begin together, one
// reads and packs while the others wait. Used by one thread; what it refers to outlives it.
class WeightSharing {
 public:
  struct Model {
    const WeightReader& reader;
    const formats::TensorSource& source;
    const ModelConfig& config;
    const WeightPlan& plan;
    ThreadPool& pool;
    std::function<void(std::int64_t before, ByteCount done)> report;  // of stored, then of packed
  };
  WeightSharing(Model model, WeightCache::Options options)
      : model_(std::move(model)), cache_(std::move(options)) {}

  // Errors: why they cannot be shared: those of WeightCache and WeightFile.
  StatusOr<SharedWeights> Get();
  // The content hash, by reading everything unless Get came to know it. Errors: WeightReader's.
  StatusOr<Hash128> Content();
  // What was wrong with a file of the cache that had to be replaced; mostly empty.
  const std::string& damage() const { return damage_; }

 private:
  StatusOr<SharedWeights> Find();
  StatusOr<SharedWeights> Pack(const WeightCache::Lock& lock);
  // Nothing when the files' stamps prove nothing.
  std::optional<Hash128> Identity() const;
  WeightFileKey key() const { return {*content_, model_.plan.layout(), model_.plan.bytes()}; }
  // Tells both the caller and who waits for the lock.
  WeightFile::Progress Reporter(std::int64_t before) const;

  Model model_;
  WeightCache cache_;
  const WeightCache::Lock* lock_ = nullptr;  // while it is held
  std::optional<Hash128> content_;
  std::string damage_;
};

}  // namespace tandem::model
