// The load of the engine benchmark: prompts and generation through a ModelRunner.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/device/cpu/cpu_device.h"
#include "common/engine/model_runner.h"
#include "tests/bench/engine/stage_work.h"

namespace tandem::bench {

// Makes what it needs for `max_sequences` sequences and `max_tokens` tokens of them all; ends the
// program when it cannot. Not thread-safe.
class EngineLoad {
 public:
  struct Options {
    int threads = 2;
    int chunk = 512;  // prompt tokens a step
    int max_sequences = 32;
    int max_tokens = 2048;
  };
  EngineLoad(const model::Model& model, const Options& options);

  // Seconds to compute a prompt of `tokens` and sample once.
  double Prefill(int tokens);
  // Seconds of `steps` greedy steps of `sequences` sequences behind prompts of `prompt` tokens.
  // Only these steps count in work() and in the stage times.
  double Decode(int sequences, int prompt, int steps);

  // Null: no clocks are read.
  void SetStageTimes(engine::StageTimes* times) { times_ = times; }
  StageWork& work() { return work_; }

 private:
  double RunPrompt(int sequence, int tokens, const std::vector<kv::BlockId>& table);
  // Blocks of sequence `index` where each has `tokens`.
  std::vector<kv::BlockId> Table(int index, int tokens) const;

  const model::Model& model_;
  Options options_;
  device::CpuDevice device_;
  std::optional<engine::KvArena> arena_;
  std::unique_ptr<engine::ModelRunner> runner_;
  StageWork work_;
  engine::StageTimes* times_ = nullptr;
  sequence::SamplingParams greedy_{.temperature = 0, .stop_token_ids = {}};
};

}  // namespace tandem::bench
