// Arithmetic and weight bytes of a step, stage by stage: what the time of each is set against.
#pragma once

#include <array>
#include <cstdint>

#include "common/engine/stage_times.h"
#include "common/model/model.h"

namespace tandem::bench {

// Sums over steps. Counts what the model asks for: two operations a multiply-add, each packed
// weight once a step, the keys and values that a row sees; not what a kernel does beyond it. Not
// thread-safe.
class StageWork {
 public:
  explicit StageWork(const model::Model& model);

  // One step of `sequences` slices of `tokens` each that start at `first`, each sampled or not.
  void AddStep(std::int64_t sequences, std::int64_t tokens, std::int64_t first, bool sampled);
  void Reset();

  double ops(engine::Stage stage) const { return ops_[static_cast<std::size_t>(stage)]; }
  double bytes(engine::Stage stage) const { return bytes_[static_cast<std::size_t>(stage)]; }
  // Over the matrix products.
  double linear_ops() const;
  double weight_bytes() const;
  // Of one step that samples.
  std::int64_t weight_bytes_per_step() const { return weight_bytes_per_step_; }

  static bool IsLinear(engine::Stage stage);

 private:
  void Add(engine::Stage stage, double ops, double bytes);

  const model::Model& model_;
  std::array<double, engine::kStages> weights_{};  // bytes of a stage's matrices, all layers
  std::int64_t weight_bytes_per_step_ = 0;
  std::array<double, engine::kStages> ops_{};
  std::array<double, engine::kStages> bytes_{};
};

}  // namespace tandem::bench
