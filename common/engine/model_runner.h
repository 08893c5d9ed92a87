// Runs a model over ragged batches: the engine that both worker roles drive.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "common/base/cpu_list.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/engine/kv_arena.h"
#include "common/engine/stage_times.h"
#include "common/engine/step_observer.h"
#include "common/kv/ids.h"
#include "common/kv/layout.h"
#include "common/model/model.h"
#include "common/sequence/batch.h"

namespace tandem::engine {

// The layout of `model`'s KV in blocks of `block_size` tokens: dtype f32 in the scalar numerics
// class, bf16 otherwise.
kv::KvLayout KvLayoutOf(const model::Model& model, std::int32_t block_size = 16);

// One forward pass a Step over prompt chunks and single tokens alike. What is computed for a token
// depends on the model, its sequence's tokens before it and its position, and on nothing else in
// the batch, bit for bit (see README.md beside this file). Holds no sequence's state: that is its
// tokens, its parameters and the KV in its blocks.
//
// Not thread-safe: one engine thread calls Step. Owns its pool of threads - 1 more.
class ModelRunner {
 public:
  struct Options {
    TokenCount max_tokens_per_step{512};  // over all slices
    std::int32_t max_slices = 64;
    // Tokens of one sequence; 0: what the model says, or what the arena holds where that is less.
    TokenCount max_context{0};
    std::int32_t threads = 0;  // that compute, Step's caller among them; 0: as many as CPUs
    // Thread i is bound to cpus[i], and with more threads than CPUs each to all. Empty: none is.
    CpuList cpus;
    // Errors: InvalidArgument naming the field, its value and its range.
    Status Validate() const;
  };

  // `model` and `arena` outlive the runner; the arena's layout is KvLayoutOf(model). All memory
  // that Step needs is allocated here. Errors: InvalidArgument for bad options; FailedPrecondition
  // when the arena is of another layout or not in host memory; Unavailable when threads cannot be
  // bound.
  static StatusOr<std::unique_ptr<ModelRunner>> Create(const model::Model& model, KvArena& arena,
                                                       const Options& options);
  ~ModelRunner();

  // Computes every slice, stores its KV, and samples where a slice asks for it: one entry for each
  // such slice, in the batch's order, valid until the next Step. A batch of no slices is fine.
  // Requires: no block that one slice writes is in another slice's table, unless it is behind the
  // other's tokens.
  // Errors: InvalidArgument, before anything is computed, for a batch over the limits, an unknown
  // token id or block, a short block table, or a position over the context; Internal, with the KV
  // stored, when a model's logits are not finite.
  StatusOr<std::span<const sequence::SampledToken>> Step(const sequence::Batch& batch,
                                                         StepObserver& observer);
  // The same with no observer.
  StatusOr<std::span<const sequence::SampledToken>> Step(const sequence::Batch& batch);

  // Null takes the sink away. It outlives its use.
  void SetLogitsSink(LogitsSink* sink);
  // Null stops the clocks. Requires: one thread's times for each of options().threads; outlives its
  // use.
  void SetStageTimes(StageTimes* times);

  const Options& options() const;
  const model::Model& model() const;
 private:
  class Impl;
  explicit ModelRunner(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::engine
