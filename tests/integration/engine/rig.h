// Drives a ModelRunner through many requests, batched and chunked by a plan, and keeps all that
// came out of it, byte for byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/hash128.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/engine/kv_arena.h"
#include "common/engine/model_runner.h"
#include "common/model/model.h"
#include "common/sequence/sampling_params.h"

namespace tandem::testing {

struct RigRequest {
  TokenIds prompt;
  // Tokens generated before this attempt, after the client's prompt: prefilled again with it.
  TokenIds earlier;
  sequence::SamplingParams params;
};

struct RigResult {
  TokenIds tokens;              // of this attempt
  std::vector<float> logprobs;  // the same
  std::vector<Hash128> logits;  // the same
  // [num_layers, tokens stored, num_kv_heads, 2 (K, V), head_dim] of the arena's elements, and then
  // whether the slots behind the last token are zero.
  std::vector<std::byte> kv;
  std::int64_t stored = 0;  // tokens whose KV is in `kv`: all but the last generated one
  bool tail_is_zero = true;

  bool operator==(const RigResult&) const = default;
};

struct RigPlan {
  int batch = 1;           // requests at a time
  std::int64_t chunk = 0;  // prompt tokens of a request in one step; 0: all
  int threads = 1;
  std::uint64_t seed = 0;        // order of requests and of block ids
  std::string ToString() const;  // "batch 8, chunk 7, 2 threads"
};

class EngineRig {
 public:
  struct Options {
    int threads = 1;
    TokenCount max_tokens_per_step{4096};
    std::int32_t max_slices = 32;
    std::int32_t num_blocks = 1024;
  };
  // `model` outlives the rig. Ends the test program when it cannot be made.
  EngineRig(const model::Model& model, const Options& options);

  // One result a request, in their order. Ends the test program on an error.
  std::vector<RigResult> Run(const std::vector<RigRequest>& requests, const RigPlan& plan);

  engine::ModelRunner& runner() { return *runner_; }
  engine::KvArena& arena() { return *arena_; }

 private:
  struct Active;
  void RunStep(std::vector<Active>& active, const RigPlan& plan);
  void Collect(const Active& active, RigResult& result) const;

  const model::Model& model_;
  std::optional<engine::KvArena> arena_;
  std::unique_ptr<engine::ModelRunner> runner_;
};

// Where two results of one request first differ: "layer 2, position 17 (K of head 1)", or "" where
// they do not. `later` may hold fewer tokens at its front: it was prefilled with them.
std::string FirstDifference(const model::Model& model, const RigResult& expected,
                            const RigResult& actual, std::size_t tokens_before);

}  // namespace tandem::testing
