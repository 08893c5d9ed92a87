// Packs a model's weights, or finds them packed by another process of this host.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/hash128.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/model/config.h"
#include "common/model/weight_cache.h"
#include "common/model/weight_reader.h"
#include "common/model/weights.h"
#include "common/model/weights_home.h"
#include "common/ops/numerics_class.h"

namespace tandem::model {

struct LoadedWeights {
  std::unique_ptr<Weights> weights;
  Hash128 content_hash;  // of config and stored rows in our order: the same for either format
  WeightsHome home;
};

struct WeightLoadOptions {
  ops::NumericsClass numerics = ops::NumericsClass::kScalarF32;
  int threads = 1;
  std::optional<WeightCache::Options> cache;                      // none: private memory
  std::function<void(ByteCount done, ByteCount total)> progress;  // on the caller's thread, or null
};

// Takes `source` over: the embedding is read from it later. Requires: `config` is valid. Whatever
// goes wrong with the cache, the weights are then packed into this process's own memory, and `home`
// tells why. Errors: those of WeightReader, the first in the model's order; ResourceExhausted.
StatusOr<LoadedWeights> LoadWeights(std::unique_ptr<formats::TensorSource> source, Naming naming,
                                    const ModelConfig& config, const WeightLoadOptions& options);

}  // namespace tandem::model
