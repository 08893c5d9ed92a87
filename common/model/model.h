// A loaded model: its shape and its weights, packed for this machine's kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/hash128.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/model/config.h"
#include "common/model/weight_cache.h"
#include "common/model/weights_home.h"
#include "common/ops/numerics_class.h"
#include "common/ops/self_check.h"

namespace tandem::model {

struct Weights;        // weights.h
struct LoadedWeights;  // weight_loader.h

// Immutable once loaded, so any thread may read it. The file must stay as it is while it is used:
// the embedding is read from its mapping.
class Model {
 public:
  struct LoadOptions {
    // "auto": the table's choice for this CPU; else the name of a numerics class.
    std::string numerics = "auto";
    std::int32_t threads = 0;  // that pack; 0: as many as CPUs
    // Called on the caller's thread as tensors are read and packed. Null: nobody asks.
    std::function<void(ByteCount done, ByteCount total)> progress;
    // The folder in which processes of this host share packed weights; none: memory of its own.
    std::optional<WeightCache::Options> weight_cache;
  };

  // `path`: a GGUF file, a .safetensors file beside its config.json, or a folder of those.
  // Errors: those of the formats; NotFound or InvalidArgument for a config or tensor that is
  // missing, absurd or of the wrong shape; Unimplemented for an unknown architecture (the known
  // ones are listed); those of ops::ChooseClass for a numerics class this CPU does not have.
  // Trouble with the cache is none of them: see weights_home().
  static StatusOr<std::unique_ptr<Model>> Load(const std::string& path, const LoadOptions& options);
  ~Model();

  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return *weights_; }
  ops::NumericsClass numerics() const { return numerics_; }
  std::string_view numerics_class() const { return ops::Name(numerics_); }
  // What other workers must have to give the same bytes.
  std::string numerics_identity() const { return ops::IdentityOf(numerics_); }
  const std::string& path() const { return path_; }
  ByteCount packed_bytes() const;  // memory that the packed weights take
  const WeightsHome& weights_home() const { return home_; }

  // Names the model instance: the stored weights, the config and `tokenizer_hash` (tokenizer and
  // template). Whatever the numerics class, the machine and, for weights of equal types, the
  // format.
  Hash128 InstanceHash(const Hash128& tokenizer_hash) const;

 private:
  Model(std::string path, ModelConfig config, ops::NumericsClass numerics, LoadedWeights loaded);

  std::string path_;
  ModelConfig config_;
  ops::NumericsClass numerics_;
  std::unique_ptr<Weights> weights_;
  Hash128 content_hash_;  // of config and stored weights
  WeightsHome home_;
};

}  // namespace tandem::model
