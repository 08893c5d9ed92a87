#include "common/model/model.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/base/cpu_features.h"
#include "common/model/model_files.h"
#include "common/model/weight_loader.h"
#include "common/model/weights.h"
#include "common/ops/self_check.h"

namespace tandem::model {

StatusOr<std::unique_ptr<Model>> Model::Load(const std::string& path, const LoadOptions& options) {
  if (options.threads < 0 || options.threads > 1024) {
    return InvalidArgument("{} threads to load with, must be 0 (as many as CPUs) to 1024",
                           options.threads);
  }
  TANDEM_ASSIGN_OR_RETURN(
      const ops::NumericsClass numerics,
      ops::ChooseClass(options.numerics == "auto" ? "" : options.numerics, DetectCpuFeatures()));
  if (options.weight_cache) TANDEM_RETURN_IF_ERROR(options.weight_cache->Validate());
  TANDEM_RETURN_IF_ERROR(ops::SelfCheck(numerics));
  TANDEM_ASSIGN_OR_RETURN(ModelFiles files, OpenModelFiles(path));
  const unsigned cpus = std::max(1u, std::thread::hardware_concurrency());
  WeightLoadOptions load;
  load.numerics = numerics;
  load.threads = options.threads > 0 ? options.threads : static_cast<int>(cpus);
  load.progress = options.progress;
  load.cache = options.weight_cache;
  TANDEM_ASSIGN_OR_RETURN(LoadedWeights loaded,
                          LoadWeights(std::move(files.tensors), files.naming, files.config, load));
  return std::unique_ptr<Model>(
      new Model(path, std::move(files.config), numerics, std::move(loaded)));
}

Model::Model(std::string path, ModelConfig config, ops::NumericsClass numerics,
             LoadedWeights loaded)
    : path_(std::move(path)),
      config_(std::move(config)),
      numerics_(numerics),
      weights_(std::move(loaded.weights)),
      content_hash_(loaded.content_hash),
      home_(std::move(loaded.home)) {}

Model::~Model() = default;

ByteCount Model::packed_bytes() const {
  std::int64_t bytes = weights_->head.bytes();
  for (const LayerWeights& layer : weights_->layers) {
    for (const ops::PackedMatrix* matrix :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      bytes += matrix->bytes();
    }
  }
  return ByteCount(bytes);
}

Hash128 Model::InstanceHash(const Hash128& tokenizer_hash) const {
  Sha256 hash;
  hash.Update("tandem model instance 2");
  hash.Update(std::as_bytes(std::span(content_hash_.bytes)));
  hash.Update(std::as_bytes(std::span(tokenizer_hash.bytes)));
  return hash.Finish128();
}

}  // namespace tandem::model
