#include "common/engine/forward_pass.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/engine/block_tails.h"
#include "common/model/rope.h"
#include "common/ops/attention.h"
#include "common/ops/embedding.h"
#include "common/ops/matmul.h"
#include "common/ops/rms_norm.h"
#include "common/ops/share.h"
#include "common/ops/swiglu.h"

namespace tandem::engine {
namespace {

const float* OrNull(const std::vector<float>& v) { return v.empty() ? nullptr : v.data(); }

// While thread 0 pauses here, the others compute at most what stands before the next barrier, its
// share as well: of few rows a product, else a row-wise operator.
void MayPause(const ops::Share& share, StepObserver* observer) {
  if (share.index == 0 && observer != nullptr) observer->MayPause();
}

}  // namespace

struct ForwardPass::Step {
  const BatchImage& image;
  ops::Share share;
  std::int64_t rows;
  std::span<const ops::KvSlice> slices;  // over these rows
  float* hidden;                         // [rows, hidden]
  float* q;                              // [rows, num_heads, head_dim]
  StageTimes* times;                     // or null

  // Calls fn(ops::Range) for rows of this step until all have been taken.
  template <typename Fn>
  void ForRows(Fn&& fn) const {
    share.ForEach(rows, fn);
  }
  // The same, where fn prepares `view`.
  template <typename Fn>
  void ForRowsOf(const ops::ActivationView& view, Fn&& fn) const {
    share.ForEach(view.units(), [&](ops::Range units) { fn(view.RowsOf(units)); });
  }
  void Enter(Stage stage) const {
    if (times != nullptr) times->Enter(share.index, stage);
  }
};

StatusOr<std::unique_ptr<ForwardPass>> ForwardPass::Create(const model::Model& model,
                                                           KvArena& arena, ThreadPool& pool,
                                                           const Limits& limits) {
  TANDEM_RETURN_IF_ERROR(arena.region().HostView().status());
  std::unique_ptr<ForwardPass> pass(new ForwardPass(model, arena, pool));
  TANDEM_RETURN_IF_ERROR(pass->Reserve(limits));
  return pass;
}

ForwardPass::ForwardPass(const model::Model& model, KvArena& arena, ThreadPool& pool)
    : model_(model),
      config_(model.config()),
      arena_(arena),
      pool_(pool),
      split_(pool.num_threads()) {}

Status ForwardPass::Reserve(const Limits& limits) {
  const std::int64_t hidden = config_.hidden_size;
  const std::int64_t heads = std::int64_t{config_.num_heads} * config_.head_dim;
  const std::int64_t kv_heads = std::int64_t{config_.num_kv_heads} * config_.head_dim;
  const std::int64_t inner = config_.intermediate_size;
  const std::int64_t widest = std::max({hidden, heads, inner});
  TANDEM_ASSIGN_OR_RETURN(ops_, ops::OpsContext::Create({.numerics = model_.numerics(),
                                                         .num_threads = pool_.num_threads(),
                                                         .max_inner_size = widest,
                                                         .head_dim = config_.head_dim}));
  const model::RopeFrequencies frequencies = model::FrequenciesOf(config_);
  TANDEM_ASSIGN_OR_RETURN(rope_, ops::RopeTable::Create(frequencies.radians_per_token,
                                                        frequencies.scale, limits.max_context));
  const std::int64_t rows = std::max(limits.max_rows, limits.max_sampled);
  TANDEM_ASSIGN_OR_RETURN(
      activations_, ops::Activations::Create(model_.numerics(), rows, std::max(hidden, heads)));
  TANDEM_ASSIGN_OR_RETURN(gated_, ops::Activations::Create(model_.numerics(), rows, inner));
  own_.resize(static_cast<std::size_t>(pool_.num_threads()));
  for (ops::Activations& own : own_) {
    TANDEM_ASSIGN_OR_RETURN(
        own, ops::Activations::Create(model_.numerics(), kOwnRows, std::max(hidden, heads)));
  }
  const std::pair<ops::AlignedBuffer*, std::int64_t> buffers[] = {
      {&hidden_, limits.max_rows * hidden},
      {&q_, limits.max_rows * heads},
      {&k_, limits.max_rows * kv_heads},
      {&v_, limits.max_rows * kv_heads},
      {&gate_, limits.max_rows * inner},
      {&up_, limits.max_rows * inner},
      {&sampled_, limits.max_sampled * hidden},
      {&sampled_q_, limits.max_sampled * heads},
      {&logits_, limits.max_sampled * config_.vocab_size}};
  for (const auto& [buffer, floats] : buffers) {
    TANDEM_ASSIGN_OR_RETURN(
        *buffer, ops::AlignedBuffer::Allocate(floats * static_cast<std::int64_t>(sizeof(float))));
  }
  return OkStatus();
}

void ForwardPass::Run(const BatchImage& image, StepObserver* observer, StageTimes* times) {
  pool_.Run([&](int thread_idx, int) {
    const Step step{image,          {&split_, thread_idx}, image.num_rows(),
                    image.slices(), hidden_.As<float>(),   q_.As<float>(),
                    times};
    step.Enter(Stage::kEmbed);
    step.ForRows([&](ops::Range rows) {
      ops::EmbedRows(model_.weights().embedding, image.ids(), step.hidden, rows);
    });
    Barrier(step);
    for (std::int32_t layer = 0; layer < config_.num_layers; ++layer) {
      RunLayer(step, layer, observer);
    }
    step.Enter(Stage::kOutside);
  });
}

void ForwardPass::Barrier(const Step& step) {
  step.Enter(Stage::kWait);
  pool_.Barrier();
}

void ForwardPass::RunLayer(const Step& step, std::int32_t layer, StepObserver* observer) {
  const model::LayerWeights& weights = model_.weights().layers[static_cast<std::size_t>(layer)];
  const ops::PagedKv kv = LayerKv(layer);
  MayPause(step.share, observer);
  ComputeKeysAndValues(step, weights, kv);
  Barrier(step);
  if (step.share.index == 0 && observer != nullptr) observer->LayerComputed(kv::Layer(layer));
  const std::int32_t window = config_.windows[static_cast<std::size_t>(layer)];
  if (layer + 1 < config_.num_layers) {
    Attend(step, weights, kv, window);
    MayPause(step.share, observer);
    FeedForward(step, weights);
  } else if (!step.image.sample_rows().empty()) {
    const Step sampled = GatherSampled(step);
    Barrier(step);
    Attend(sampled, weights, kv, window);
    MayPause(step.share, observer);
    FeedForward(sampled, weights);
    ComputeLogits(sampled);
  }
}

ForwardPass::Step ForwardPass::GatherSampled(const Step& step) {
  const std::span<const std::int32_t> rows = step.image.sample_rows();
  const Step sampled{step.image,
                     step.share,
                     static_cast<std::int64_t>(rows.size()),
                     step.image.sample_kv_slices(),
                     sampled_.As<float>(),
                     sampled_q_.As<float>(),
                     step.times};
  step.Enter(Stage::kEmbed);
  const auto copy = [&](const float* from, float* to, std::int64_t width, std::int64_t i) {
    std::memcpy(to + i * width, from + rows[static_cast<std::size_t>(i)] * width,
                static_cast<std::size_t>(width) * sizeof(float));
  };
  sampled.ForRows([&](ops::Range mine) {
    for (std::int64_t i = mine.begin; i < mine.end; ++i) {
      copy(step.hidden, sampled.hidden, config_.hidden_size, i);
      copy(step.q, sampled.q, std::int64_t{config_.num_heads} * config_.head_dim, i);
    }
  });
  return sampled;
}

void ForwardPass::ComputeKeysAndValues(const Step& step, const model::LayerWeights& weights,
                                       const ops::PagedKv& kv) {
  const ops::ActivationView x = Normalize(step, weights.attention_norm);
  step.Enter(Stage::kQkv);
  ops::Matmul(ops_, weights.q, x, {.y = step.q, .bias = OrNull(weights.q_bias)}, step.share);
  ops::Matmul(ops_, weights.k, x, {.y = k_.As<float>(), .bias = OrNull(weights.k_bias)},
              step.share);
  ops::Matmul(ops_, weights.v, x, {.y = v_.As<float>(), .bias = OrNull(weights.v_bias)},
              step.share);
  Barrier(step);
  step.Enter(Stage::kStoreKv);
  step.ForRows([&](ops::Range rows) { StoreRows(step, weights, kv, rows); });
  const std::span<const ops::KvSlice> slices = step.image.slices();
  step.share.ForEach(static_cast<std::int64_t>(slices.size()),
                     [&](ops::Range some) { ClearBlockTails(kv, slices, some); });
}

ops::ActivationView ForwardPass::Inputs(const Step& step, std::int64_t k) const {
  const auto index = static_cast<std::size_t>(step.share.index);
  return (step.rows <= kOwnRows ? own_[index] : activations_).View(step.rows, k);
}

template <typename Fn>
void ForwardPass::ForInputs(const Step& step, const ops::ActivationView& view, Fn&& fn) {
  if (step.rows <= kOwnRows) return fn(ops::Range{0, step.rows});
  step.ForRowsOf(view, fn);
  Barrier(step);
}

ops::ActivationView ForwardPass::Normalize(const Step& step, const std::vector<float>& weight) {
  const ops::ActivationView out = Inputs(step, config_.hidden_size);
  step.Enter(Stage::kNorm);
  ForInputs(step, out, [&](ops::Range rows) {
    ops::RmsNorm(ops_, {.x = step.hidden, .weight = weight.data(), .eps = config_.rms_norm_eps},
                 out, rows);
  });
  return out;
}

void ForwardPass::StoreRows(const Step& step, const model::LayerWeights& weights,
                            const ops::PagedKv& kv, ops::Range rows) {
  const std::int64_t head_dim = config_.head_dim;
  const std::int64_t q_stride = config_.num_heads * head_dim;
  const std::int64_t kv_stride = config_.num_kv_heads * head_dim;
  float* k = k_.As<float>();
  ops::HeadNormArgs norm{.x = step.q,
                         .x_stride = q_stride,
                         .heads = config_.num_heads,
                         .head_dim = head_dim,
                         .weight = OrNull(weights.q_norm),
                         .eps = config_.rms_norm_eps};
  ops::RopeArgs rope{.x = step.q,
                     .x_stride = q_stride,
                     .heads = config_.num_heads,
                     .head_dim = head_dim,
                     .positions = step.image.positions().data(),
                     .pairs = ops::RopePairs::kHalves};
  if (config_.qk_norm) ops::HeadNorm(ops_, norm, rows);
  ops::Rope(ops_, rope_, rope, rows);
  norm.x = rope.x = k;
  norm.x_stride = rope.x_stride = kv_stride;
  norm.heads = rope.heads = config_.num_kv_heads;
  norm.weight = OrNull(weights.k_norm);
  if (config_.qk_norm) ops::HeadNorm(ops_, norm, rows);
  ops::Rope(ops_, rope_, rope, rows);
  ops::KvAppend(ops_, kv, step.image.slices(),
                {.k = k, .v = v_.As<float>(), .k_stride = kv_stride, .v_stride = kv_stride}, rows);
}

void ForwardPass::Attend(const Step& step, const model::LayerWeights& weights,
                         const ops::PagedKv& kv, std::int32_t window) {
  const std::int64_t stride = std::int64_t{config_.num_heads} * config_.head_dim;
  ops::ActivationView x = Inputs(step, stride);
  x.x = activations_.View(step.rows, stride).x;  // every thread writes and reads all of it
  step.Enter(Stage::kAttention);
  ops::Attention(ops_, kv, step.slices,
                 {.q = step.q,
                  .q_stride = stride,
                  .out = x.x,
                  .out_stride = stride,
                  .num_heads = config_.num_heads,
                  .scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim)),
                  .window = window,
                  .precise = !weights.q.is_quantized()},
                 step.share);
  Barrier(step);
  if (ops_.kernels().image_row != nullptr) {
    step.Enter(Stage::kAttention);
    ForInputs(step, x, [&](ops::Range rows) { ops::Prepare(ops_, x, rows); });
  }
  step.Enter(Stage::kOutput);
  ops::Matmul(ops_, weights.o, x,
              {.y = step.hidden, .bias = OrNull(weights.o_bias), .accumulate = true}, step.share);
  Barrier(step);
}

void ForwardPass::FeedForward(const Step& step, const model::LayerWeights& weights) {
  const ops::ActivationView x = Normalize(step, weights.mlp_norm);
  const ops::ActivationView inner = gated_.View(step.rows, config_.intermediate_size);
  const ops::GatedWeights gated{weights.gate, weights.up, OrNull(weights.gate_bias),
                                OrNull(weights.up_bias)};
  step.Enter(Stage::kGateUp);
  if (ops::HasGatedMatmul(ops_, weights.gate, weights.up, weights.down)) {
    ops::GatedMatmul(ops_, gated, x, inner, step.share);
  } else {
    float* gate = gate_.As<float>();
    float* up = up_.As<float>();
    ops::Matmul(ops_, gated.gate, x, {.y = gate, .bias = gated.gate_bias}, step.share);
    ops::Matmul(ops_, gated.up, x, {.y = up, .bias = gated.up_bias}, step.share);
    Barrier(step);
    step.Enter(Stage::kActivate);
    step.ForRowsOf(
        inner, [&](ops::Range rows) { ops::Swiglu(ops_, {.gate = gate, .up = up}, inner, rows); });
  }
  Barrier(step);
  step.Enter(Stage::kDown);
  ops::Matmul(ops_, weights.down, inner,
              {.y = step.hidden, .bias = OrNull(weights.down_bias), .accumulate = true},
              step.share);
  Barrier(step);
}

void ForwardPass::ComputeLogits(const Step& step) {
  const ops::ActivationView x = Normalize(step, model_.weights().final_norm);
  step.Enter(Stage::kHead);
  ops::Matmul(ops_, model_.weights().head, x, {.y = logits_.As<float>()}, step.share);
}

ops::PagedKv ForwardPass::LayerKv(std::int32_t layer) const {
  const kv::KvLayout& layout = arena_.layout();
  return {arena_.LayerRegion(kv::Layer(layer)).address, ops::KvTypeOf(model_.numerics()),
          layout.num_kv_heads, layout.block_size, layout.head_dim};
}

std::span<const float> ForwardPass::logits(std::int64_t index) const {
  return {logits_.As<float>() + index * config_.vocab_size,
          static_cast<std::size_t>(config_.vocab_size)};
}

}  // namespace tandem::engine
