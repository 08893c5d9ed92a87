#include "tests/bench/engine/stage_work.h"

#include "common/model/weights.h"

namespace tandem::bench {

using engine::Stage;

StageWork::StageWork(const model::Model& model) : model_(model) {
  const auto count = [&](Stage stage, std::int64_t bytes) {
    weights_[static_cast<std::size_t>(stage)] += static_cast<double>(bytes);
    weight_bytes_per_step_ += bytes;
  };
  for (const model::LayerWeights& layer : model.weights().layers) {
    count(Stage::kQkv, layer.q.bytes() + layer.k.bytes() + layer.v.bytes());
    count(Stage::kOutput, layer.o.bytes());
    count(Stage::kGateUp, layer.gate.bytes() + layer.up.bytes());
    count(Stage::kDown, layer.down.bytes());
  }
  count(Stage::kHead, model.weights().head.bytes());
}

void StageWork::AddStep(std::int64_t sequences, std::int64_t tokens, std::int64_t first,
                        bool sampled) {
  const model::ModelConfig& config = model_.config();
  const double layers = config.num_layers;
  const double rows = static_cast<double>(sequences * tokens);
  const double samples = sampled ? static_cast<double>(sequences) : 0;
  // Behind the last layer's keys and values only sampled rows go on.
  const double layer_rows = rows * (layers - 1) + samples;
  const double hidden = config.hidden_size;
  const double heads = static_cast<double>(config.num_heads) * config.head_dim;
  const double kv_heads = static_cast<double>(config.num_kv_heads) * config.head_dim;
  const double inner = config.intermediate_size;
  const auto weights = [&](Stage stage) { return weights_[static_cast<std::size_t>(stage)]; };
  Add(Stage::kQkv, 2 * hidden * (heads + 2 * kv_heads) * rows * layers, weights(Stage::kQkv));
  Add(Stage::kOutput, 2 * hidden * heads * layer_rows, weights(Stage::kOutput));
  Add(Stage::kGateUp, 2 * 2 * hidden * inner * layer_rows, weights(Stage::kGateUp));
  Add(Stage::kDown, 2 * hidden * inner * layer_rows, weights(Stage::kDown));
  const double seen = static_cast<double>(first) + static_cast<double>(tokens + 1) / 2;  // a row
  const double last = static_cast<double>(first + tokens);
  const double key_bytes = 2 * kv_heads * ops::ElementBytes(ops::KvTypeOf(model_.numerics()));
  Add(Stage::kAttention, 4 * heads * (rows * (layers - 1) * seen + samples * last),
      key_bytes * last * static_cast<double>(sequences) * layers);
  if (sampled) {
    Add(Stage::kHead, 2 * hidden * config.vocab_size * samples, weights(Stage::kHead));
  }
}

void StageWork::Add(Stage stage, double ops, double bytes) {
  ops_[static_cast<std::size_t>(stage)] += ops;
  bytes_[static_cast<std::size_t>(stage)] += bytes;
}

void StageWork::Reset() {
  ops_ = {};
  bytes_ = {};
}

bool StageWork::IsLinear(Stage stage) {
  return stage == Stage::kQkv || stage == Stage::kOutput || stage == Stage::kGateUp ||
         stage == Stage::kDown || stage == Stage::kHead;
}

double StageWork::linear_ops() const {
  double sum = 0;
  for (std::size_t i = 0; i < engine::kStages; ++i) {
    if (IsLinear(static_cast<Stage>(i))) sum += ops_[i];
  }
  return sum;
}

double StageWork::weight_bytes() const {
  double sum = 0;
  for (std::size_t i = 0; i < engine::kStages; ++i) {
    if (IsLinear(static_cast<Stage>(i))) sum += bytes_[i];
  }
  return sum;
}

}  // namespace tandem::bench
