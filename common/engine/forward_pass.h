// From token ids to logits, writing keys and values on the way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/base/units.h"
#include "common/engine/batch_image.h"
#include "common/engine/kv_arena.h"
#include "common/engine/stage_times.h"
#include "common/engine/step_observer.h"
#include "common/model/model.h"
#include "common/model/weights.h"
#include "common/ops/activations.h"
#include "common/ops/aligned_buffer.h"
#include "common/ops/ops_context.h"
#include "common/ops/paged_kv.h"
#include "common/ops/rope.h"
#include "common/ops/share.h"

namespace tandem::engine {

// The buffers of a step and the order of its operators. All threads of the pool walk the same list
// of operators, each computing its share, with a barrier where one reads what another wrote. Not
// thread-safe: one Run at a time.
class ForwardPass {
 public:
  struct Limits {
    std::int64_t max_rows = 0;
    std::int64_t max_sampled = 0;
    std::int64_t max_context = 0;
  };

  // Model, arena (in host memory) and pool outlive this.
  // Errors: FailedPrecondition for memory that is not the host's; ResourceExhausted.
  static StatusOr<std::unique_ptr<ForwardPass>> Create(const model::Model& model, KvArena& arena,
                                                       ThreadPool& pool, const Limits& limits);

  // Requires: `image` is within the limits and has a row. `observer` and `times` may be null.
  void Run(const BatchImage& image, StepObserver* observer, StageTimes* times);

  // Of sample row `index` of the last Run. [vocab_size]
  std::span<const float> logits(std::int64_t index) const;
  const ops::OpsContext& ops() const { return ops_; }

 private:
  struct Step;  // one thread's view of a Run

  ForwardPass(const model::Model& model, KvArena& arena, ThreadPool& pool);
  Status Reserve(const Limits& limits);

  // pool_.Barrier(), counted as waiting.
  void Barrier(const Step& step);
  void RunLayer(const Step& step, std::int32_t layer, StepObserver* observer);
  // Copies the rows that are sampled next to one another: all that is left to compute once the last
  // layer's keys and values are stored.
  Step GatherSampled(const Step& step);
  void ComputeKeysAndValues(const Step& step, const model::LayerWeights& weights,
                            const ops::PagedKv& kv);
  // Where the rows that a product is to read lie: all threads' or, of few, the thread's own.
  ops::ActivationView Inputs(const Step& step, std::int64_t k) const;
  // Calls fn(rows) for all rows of Inputs(), among the threads and with a barrier behind, or of few
  // rows on every thread.
  template <typename Fn>
  void ForInputs(const Step& step, const ops::ActivationView& view, Fn&& fn);
  // step.hidden's rows for a product.
  ops::ActivationView Normalize(const Step& step, const std::vector<float>& weight);
  // Queries and keys of some rows turned by position, keys and values stored.
  void StoreRows(const Step& step, const model::LayerWeights& weights, const ops::PagedKv& kv,
                 ops::Range rows);
  void Attend(const Step& step, const model::LayerWeights& weights, const ops::PagedKv& kv,
              std::int32_t window);
  void FeedForward(const Step& step, const model::LayerWeights& weights);
  void ComputeLogits(const Step& step);
  ops::PagedKv LayerKv(std::int32_t layer) const;

  const model::Model& model_;
  const model::ModelConfig& config_;
  KvArena& arena_;
  ThreadPool& pool_;
  ops::Split split_;  // of work over the pool's threads
  ops::OpsContext ops_;
  ops::RopeTable rope_;
  // Up to so many rows each thread makes the inputs of its products for itself: sooner than it
  // would wait for others and read what they wrote.
  static constexpr std::int64_t kOwnRows = 8;
  ops::Activations activations_;       // input of the matrix product at hand
  std::vector<ops::Activations> own_;  // the same of few rows, one a thread
  ops::Activations gated_;             // the same of the feed-forward block's second
  ops::AlignedBuffer hidden_;          // [max_rows, hidden] f32: the residual stream
  ops::AlignedBuffer q_;               // [max_rows, num_heads, head_dim] f32
  ops::AlignedBuffer k_;               // [max_rows, num_kv_heads, head_dim] f32
  ops::AlignedBuffer v_;               // the same
  ops::AlignedBuffer gate_;            // [max_rows, intermediate] f32
  ops::AlignedBuffer up_;              // the same
  ops::AlignedBuffer sampled_;         // [max_sampled, hidden] f32: hidden_'s sampled rows
  ops::AlignedBuffer sampled_q_;       // [max_sampled, num_heads, head_dim] f32: q_'s
  ops::AlignedBuffer logits_;          // [max_sampled, vocab] f32
};

}  // namespace tandem::engine
