// Who watches a step while it runs.
#pragma once

#include <span>

#include "common/kv/ids.h"
#include "common/sequence/batch.h"

namespace tandem::engine {

// Called on the thread that runs Step: be quick, do not block, except where noted.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // K and V of `layer` of every token of the batch are stored in the arena.
  virtual void LayerComputed(kv::Layer layer) = 0;
  // Twice a layer, where all other threads soon sleep at a barrier: the step goes on when this
  // returns, so here it may block.
  virtual void MayPause() {}
};

// Sees the logits of each sampled row before sampling; for tests and references.
class LogitsSink {
 public:
  virtual ~LogitsSink() = default;
  virtual void Logits(sequence::SliceTag tag, std::span<const float> logits) = 0;  // [vocab_size]
};

}  // namespace tandem::engine
