// Who watches a step while it runs.
#pragma once

#include <span>

#include "common/kv/ids.h"
#include "common/sequence/batch.h"

namespace tandem::engine {

// Called on the thread that runs Step, between two layers: be quick, do not block.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // K and V of `layer` of every token of the batch are stored in the arena.
  virtual void LayerComputed(kv::Layer layer) = 0;
};

// Sees the logits of each sampled row before sampling; for tests and references.
class LogitsSink {
 public:
  virtual ~LogitsSink() = default;
  virtual void Logits(sequence::SliceTag tag, std::span<const float> logits) = 0;  // [vocab_size]
};

}  // namespace tandem::engine
