// Chooses a token from logits: a function of the logits, the parameters and the position alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/ops/ops_context.h"
#include "common/sequence/sampling_params.h"

namespace tandem::engine {

// Greedy below temperature 1e-5; else, in vLLM's order: temperature (0.01 at least), min_p, top_k,
// top_p, then one draw. The draw is Philox keyed by the seed at counter (position, purpose, index),
// so each position has exactly one, whatever was drawn before. Equals rank by lower token id.
// Sums run over fixed slices of the vocabulary in its order, with the numerics class's exponential:
// the result is the same on every machine of a class.
//
// Holds scratch of a few words per vocabulary entry, so Sample allocates nothing. Not thread-safe:
// one for each thread.
class Sampler {
 public:
  struct Choice {
    TokenId token;
    float logprob;  // natural log, of the distribution before temperature and filters
  };

  // Requires: vocab_size > 0; the context outlives this.
  Sampler(const ops::OpsContext& context, std::int32_t vocab_size);

  // Errors: Internal when the largest logit is not finite or one is NaN.
  // Requires: logits.size() is the vocabulary's; `params` is valid.
  StatusOr<Choice> Sample(std::span<const float> logits, const sequence::SamplingParams& params,
                          Position position);

 private:
  // The weight exp((logit - max) / temperature) of every token, less than min_p ones zeroed, into
  // weights_.
  void Weigh(std::span<const float> logits, float max, const sequence::SamplingParams& params);
  TokenId DrawFromAll(double unit) const;
  TokenId DrawFromBest(const sequence::SamplingParams& params, double unit);
  // Ranks the best `count` of candidates_ to its front, best first. Requires: count <= their
  // number.
  void RankBest(std::size_t count);

  const ops::OpsContext* context_;
  std::vector<float> weights_;            // [vocab_size]
  std::vector<std::int32_t> candidates_;  // token ids of positive weight; at most vocab_size
};

}  // namespace tandem::engine
