#include "common/model/weight_loader.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/thread_pool.h"

namespace tandem::model {
namespace {

struct Job {
  Part part;
  std::int32_t layer;
};

std::vector<Job> JobsOf(const ModelConfig& config) {
  std::vector<Job> jobs;
  for (Part part : ModelParts()) jobs.push_back({part, 0});
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (Part part : LayerParts(config)) jobs.push_back({part, layer});
  }
  return jobs;
}

ops::PackedMatrix* MatrixOf(Weights& weights, const Job& job) {
  if (job.part == Part::kHead) return &weights.head;
  LayerWeights& layer = weights.layers[static_cast<std::size_t>(job.layer)];
  switch (job.part) {
    case Part::kQ:
      return &layer.q;
    case Part::kK:
      return &layer.k;
    case Part::kV:
      return &layer.v;
    case Part::kO:
      return &layer.o;
    case Part::kGate:
      return &layer.gate;
    case Part::kUp:
      return &layer.up;
    case Part::kDown:
      return &layer.down;
    default:
      return nullptr;
  }
}

std::vector<float>* VectorOf(Weights& weights, const Job& job) {
  if (job.part == Part::kFinalNorm) return &weights.final_norm;
  LayerWeights& layer = weights.layers[static_cast<std::size_t>(job.layer)];
  switch (job.part) {
    case Part::kAttentionNorm:
      return &layer.attention_norm;
    case Part::kQBias:
      return &layer.q_bias;
    case Part::kKBias:
      return &layer.k_bias;
    case Part::kVBias:
      return &layer.v_bias;
    case Part::kQNorm:
      return &layer.q_norm;
    case Part::kKNorm:
      return &layer.k_norm;
    case Part::kOBias:
      return &layer.o_bias;
    case Part::kMlpNorm:
      return &layer.mlp_norm;
    case Part::kGateBias:
      return &layer.gate_bias;
    case Part::kUpBias:
      return &layer.up_bias;
    case Part::kDownBias:
      return &layer.down_bias;
    default:
      return nullptr;
  }
}

Hash128 HashPart(const Job& job, const ops::WeightSource& source) {
  Sha256 hash;
  hash.UpdateU64(static_cast<std::uint64_t>(job.part));
  hash.UpdateU64(static_cast<std::uint64_t>(job.layer));
  hash.UpdateU64(static_cast<std::uint64_t>(source.type));
  hash.UpdateU64(static_cast<std::uint64_t>(source.n));
  hash.UpdateU64(static_cast<std::uint64_t>(source.k));
  hash.Update(source.bytes);
  return hash.Finish128();
}

// Loads one part into its place. Different jobs touch different places.
Status RunJob(const WeightReader& reader, const Job& job, ops::NumericsClass numerics,
              Weights& weights, Hash128& hash) {
  TANDEM_ASSIGN_OR_RETURN(StoredPart stored, reader.Read(job.part, job.layer));
  hash = HashPart(job, stored.source);
  if (job.part == Part::kEmbedding) {
    weights.embedding = stored.source;  // never reordered, so it points into the mapping
    return OkStatus();
  }
  if (std::vector<float>* vector = VectorOf(weights, job)) {
    TANDEM_ASSIGN_OR_RETURN(*vector, reader.ReadVector(job.part, job.layer));
    return OkStatus();
  }
  TANDEM_ASSIGN_OR_RETURN(*MatrixOf(weights, job),
                          ops::PackedMatrix::Pack(stored.source, numerics));
  return OkStatus();
}

Hash128 HashAll(const ModelConfig& config, const std::vector<Hash128>& parts) {
  Sha256 hash;
  hash.Update(config.ToString());
  hash.UpdateU64(config.rope_divisors.size());
  hash.Update(std::as_bytes(std::span(config.rope_divisors)));
  hash.Update(std::as_bytes(std::span(config.windows)));
  hash.Update(fmt::format("{:a} {:a} {} {:a} {:a} {:a} {:a} {:a}", config.rms_norm_eps,
                          config.rope_theta, static_cast<int>(config.rope_scaling.type),
                          config.rope_scaling.factor, config.rope_scaling.original_context,
                          config.rope_scaling.beta_fast, config.rope_scaling.beta_slow,
                          config.rope_scaling.attention_factor.value_or(0)));
  for (const Hash128& part : parts) hash.Update(std::as_bytes(std::span(part.bytes)));
  return hash.Finish128();
}

}  // namespace

StatusOr<LoadedWeights> LoadWeights(std::unique_ptr<formats::TensorSource> source, Naming naming,
                                    const ModelConfig& config, const WeightLoadOptions& options) {
  const WeightReader reader(*source, naming, config);
  const std::vector<Job> jobs = JobsOf(config);
  // Every name and shape first: a wrong file fails at once, not after minutes of packing.
  std::int64_t total = 0;
  for (const Job& job : jobs) {
    TANDEM_ASSIGN_OR_RETURN(ByteCount bytes, reader.Check(job.part, job.layer));
    total += bytes.value();
  }
  auto weights = std::make_unique<Weights>();
  weights->layers.resize(static_cast<std::size_t>(config.num_layers));
  std::vector<Hash128> hashes(jobs.size());
  std::vector<Status> results(jobs.size());
  std::atomic<std::size_t> next{0};
  std::atomic<std::int64_t> done{0};
  ThreadPool pool(options.threads);
  pool.Run([&](int thread_idx, int) {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      results[i] = RunJob(reader, jobs[i], options.numerics, *weights, hashes[i]);
      auto bytes = reader.Check(jobs[i].part, jobs[i].layer);
      done += bytes.ok() ? bytes->value() : 0;
      if (thread_idx == 0 && options.progress) {
        options.progress(ByteCount(done), ByteCount(total));
      }
    }
  });
  for (const Status& result : results) TANDEM_RETURN_IF_ERROR(result);
  if (options.progress) options.progress(ByteCount(total), ByteCount(total));
  const Hash128 content_hash = HashAll(config, hashes);
  weights->source = std::move(source);
  return LoadedWeights{std::move(weights), content_hash};
}

}  // namespace tandem::model
