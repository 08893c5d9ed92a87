#include "common/model/weight_loader.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/thread_pool.h"
#include "common/model/weight_plan.h"
#include "common/model/weight_sharing.h"
#include "common/ops/packed_matrix.h"

namespace tandem::model {
namespace {

ops::PackedMatrix* MatrixOf(Weights& weights, const PartRef& ref) {
  if (ref.part == Part::kHead) return &weights.head;
  LayerWeights& layer = weights.layers[static_cast<std::size_t>(ref.layer)];
  switch (ref.part) {
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

std::vector<float>* VectorOf(Weights& weights, const PartRef& ref) {
  if (ref.part == Part::kFinalNorm) return &weights.final_norm;
  LayerWeights& layer = weights.layers[static_cast<std::size_t>(ref.layer)];
  switch (ref.part) {
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

// Puts the matrices where the plan has them, and reads the rest from the file.
Status Place(const WeightReader& reader, const ModelConfig& config, const WeightPlan& plan,
             const std::byte* packed, Weights& weights) {
  weights.layers.resize(static_cast<std::size_t>(config.num_layers));
  for (const PlannedMatrix& matrix : plan.matrices()) {
    ops::PackedView view = matrix.shape;
    view.data = reinterpret_cast<const std::uint8_t*>(packed + matrix.offset);
    *MatrixOf(weights, matrix.ref) = ops::PackedMatrix::At(view);
  }
  for (const PartRef& ref : PartsOf(config)) {
    if (ref.part == Part::kEmbedding) {  // never reordered, so it points into the mapping
      TANDEM_ASSIGN_OR_RETURN(weights.embedding, reader.Read(ref));
    } else if (!IsPacked(ref.part)) {
      TANDEM_ASSIGN_OR_RETURN(*VectorOf(weights, ref), reader.ReadVector(ref));
    }
  }
  return OkStatus();
}

StatusOr<ops::AlignedBuffer> PackPrivately(const WeightPlan& plan, ThreadPool& pool,
                                           const WeightFile::Progress& progress) {
  TANDEM_ASSIGN_OR_RETURN(ops::AlignedBuffer packed, ops::AlignedBuffer::Allocate(plan.bytes()));
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> done{0};
  pool.Run([&](int thread_idx, int) {
    std::vector<std::byte> spare;
    for (std::int64_t i = next++; i < plan.num_windows(); i = next++) {
      plan.Fill(i, packed.data() + i * WeightPlan::kWindowBytes, spare);
      done += WeightPlan::kWindowBytes;
      if (thread_idx == 0) progress(ByteCount(done));
    }
  });
  return packed;
}

// Has the cache give what it can. Errors: why it gives nothing.
Status Share(const WeightPlan& plan, const WeightLoadOptions& options, WeightSharing& sharing,
             LoadedWeights& out) {
  if (!options.cache) return FailedPrecondition("not asked for");
  if (plan.bytes() < options.cache->min_bytes.value()) {
    return FailedPrecondition("{} bytes are too few to be worth a file (from {} on)", plan.bytes(),
                              options.cache->min_bytes);
  }
  auto shared = sharing.Get();
  out.home.damage = sharing.damage();
  out.home.denied = !shared.ok();
  if (!shared.ok()) return shared.status();
  out.home.shared = true;
  out.home.packed = shared->packed;
  out.home.file = std::move(shared->path);
  out.weights->packed = std::move(shared->file);
  return OkStatus();
}

const std::byte* DataOf(const Weights& weights) {
  if (const auto* file = std::get_if<WeightFile>(&weights.packed)) return file->data();
  return std::get<ops::AlignedBuffer>(weights.packed).data();
}

}  // namespace

StatusOr<LoadedWeights> LoadWeights(std::unique_ptr<formats::TensorSource> source, Naming naming,
                                    const ModelConfig& config, const WeightLoadOptions& options) {
  const WeightReader reader(*source, naming, config);
  TANDEM_ASSIGN_OR_RETURN(const WeightPlan plan,
                          WeightPlan::Make(reader, config, options.numerics));
  ThreadPool pool(options.threads);
  const ByteCount total(plan.stored_bytes() + plan.bytes());
  const auto report = [&](std::int64_t before, ByteCount done) {
    if (options.progress) options.progress(std::min(ByteCount(before) + done, total), total);
  };
  WeightSharing sharing({.reader = reader,
                         .source = *source,
                         .config = config,
                         .plan = plan,
                         .pool = pool,
                         .report = report},
                        options.cache.value_or(WeightCache::Options{}));
  LoadedWeights out;
  out.weights = std::make_unique<Weights>();
  const Status shared = Share(plan, options, sharing, out);
  TANDEM_ASSIGN_OR_RETURN(out.content_hash, sharing.Content());
  if (!shared.ok()) {
    out.home.packed = true;
    out.home.why_not = std::string(FromAbsl(shared.message()));
    TANDEM_ASSIGN_OR_RETURN(out.weights->packed, PackPrivately(plan, pool, [&](ByteCount done) {
                              report(plan.stored_bytes(), done);
                            }));
  }
  TANDEM_RETURN_IF_ERROR(Place(reader, config, plan, DataOf(*out.weights), *out.weights));
  report(plan.stored_bytes(), ByteCount(plan.bytes()));
  out.weights->source = std::move(source);
  return out;
}

}  // namespace tandem::model
