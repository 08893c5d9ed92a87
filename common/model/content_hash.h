// Names a model's weights and config by what they are.
#pragma once

#include <functional>

#include "common/base/hash128.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/base/units.h"
#include "common/model/config.h"
#include "common/model/weight_reader.h"

namespace tandem::model {

// Of everything in `config` that computing depends on.
Hash128 ConfigHash(const ModelConfig& config);

// SHA-256 over config and stored rows in our order, so the same for either format: a tree of about
// 1 MiB of rows a leaf, for all threads to work on. `progress` is called on the caller's thread
// with the bytes done, or null. Errors: those of WeightReader.
StatusOr<Hash128> ContentHash(const WeightReader& reader, const ModelConfig& config,
                              ThreadPool& pool, const std::function<void(ByteCount)>& progress);

}  // namespace tandem::model
