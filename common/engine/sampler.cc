#include "common/engine/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/ops/logits.h"

namespace tandem::engine {
namespace {

constexpr std::size_t kSlice = 1024;  // vocabulary entries summed as one
constexpr std::size_t kLanes = 16;    // partial sums of a slice
constexpr float kMinTemperature = 0.01f;
constexpr std::uint32_t kPurposeSample = 0;  // Philox counter word 1

// Sums `get(i)` for i below n: lanes in order, slices in order.
template <typename Get>
double SumInOrder(std::size_t n, Get get) {
  double total = 0;
  for (std::size_t begin = 0; begin < n; begin += kSlice) {
    const std::size_t end = std::min(n, begin + kSlice);
    std::array<float, kLanes> lanes{};
    std::size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (std::size_t l = 0; l < kLanes; ++l) lanes[l] += get(i + l);
    }
    for (std::size_t l = 0; i < end; ++i, ++l) lanes[l] += get(i);
    for (float lane : lanes) total += static_cast<double>(lane);
  }
  return total;
}

// Uniform in [0, 1) with 53 bits.
double Draw(std::uint64_t seed, Position position) {
  const auto words =
      Philox(seed, {static_cast<std::uint32_t>(position.value()), kPurposeSample, 0, 0});
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32) | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

Sampler::Sampler(const ops::OpsContext& context, std::int32_t vocab_size)
    : context_(&context), weights_(static_cast<std::size_t>(vocab_size)) {
  candidates_.reserve(weights_.size());
}

StatusOr<Sampler::Choice> Sampler::Sample(std::span<const float> logits,
                                          const sequence::SamplingParams& params,
                                          Position position) {
  TANDEM_CHECK(logits.size() == weights_.size());
  const std::optional<std::int64_t> best = ops::Argmax(*context_, logits);
  const float max = best.has_value() ? logits[static_cast<std::size_t>(*best)] : 0.0f;
  if (!best.has_value() || !std::isfinite(max)) {
    return Internal("logits at generated position {} are not finite", position);
  }
  const double sum = ops::ExpSum(*context_, logits, max, weights_);
  auto choice = [&](TokenId token) {
    const double difference =
        static_cast<double>(logits[static_cast<std::size_t>(token.value())]) - max;
    return Choice{token, static_cast<float>(difference - std::log(sum))};
  };
  if (params.greedy()) return choice(TokenId(static_cast<std::int32_t>(*best)));
  Weigh(logits, max, params);
  const double unit = Draw(params.seed, position);
  const bool ranked = params.top_k > 0 || params.top_p < 1.0f;
  return choice(ranked ? DrawFromBest(params, unit) : DrawFromAll(unit));
}

void Sampler::Weigh(std::span<const float> logits, float max,
                    const sequence::SamplingParams& params) {
  const float temperature = std::max(params.temperature, kMinTemperature);
  for (std::size_t i = 0; i < logits.size(); ++i) weights_[i] = (logits[i] - max) / temperature;
  ops::ExpSum(*context_, weights_, 0.0f, weights_);
  if (params.min_p <= 0.0f) return;
  for (float& weight : weights_) {
    if (weight < params.min_p) weight = 0.0f;  // the best token's is 1
  }
}

TokenId Sampler::DrawFromAll(double unit) const {
  const std::size_t n = weights_.size();
  const double target = unit * SumInOrder(n, [&](std::size_t i) { return weights_[i]; });
  double before = 0;
  std::size_t last = 0;  // the last token of positive weight so far
  for (std::size_t begin = 0; begin < n; begin += kSlice) {
    const std::size_t size = std::min(kSlice, n - begin);
    const double slice = SumInOrder(size, [&](std::size_t i) { return weights_[begin + i]; });
    const bool here = before + slice > target;
    double cumulative = before;
    for (std::size_t i = begin; i < begin + size && (here || slice > 0); ++i) {
      if (weights_[i] == 0) continue;
      last = i;
      cumulative += static_cast<double>(weights_[i]);
      if (here && cumulative > target) return TokenId(static_cast<std::int32_t>(i));
    }
    // The one-by-one sum may end a rounding short of the slice's: then its last token it is.
    if (here) return TokenId(static_cast<std::int32_t>(last));
    before += slice;
  }
  return TokenId(static_cast<std::int32_t>(last));
}

void Sampler::RankBest(std::size_t count) {
  const auto better = [this](std::int32_t a, std::int32_t b) {
    const float wa = weights_[static_cast<std::size_t>(a)];
    const float wb = weights_[static_cast<std::size_t>(b)];
    return wa != wb ? wa > wb : a < b;
  };
  const auto middle = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
  if (middle != candidates_.end()) {
    std::nth_element(candidates_.begin(), middle, candidates_.end(), better);
  }
  std::sort(candidates_.begin(), middle, better);
}

TokenId Sampler::DrawFromBest(const sequence::SamplingParams& params, double unit) {
  const auto weight = [this](std::int32_t id) {
    return static_cast<double>(weights_[static_cast<std::size_t>(id)]);
  };
  candidates_.clear();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > 0) candidates_.push_back(static_cast<std::int32_t>(i));
  }
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < candidates_.size()) {
    RankBest(static_cast<std::size_t>(params.top_k));
    candidates_.resize(static_cast<std::size_t>(params.top_k));
  }
  if (params.top_p < 1.0f) {
    std::sort(candidates_.begin(), candidates_.end());
    double total = 0;
    for (std::int32_t id : candidates_) total += weight(id);
    // Keeps tokens, best first, until they hold top_p of the mass; at least one. Ranks more of them
    // only while the mass does not suffice.
    std::size_t ranked = 0;
    std::size_t kept = 0;
    double mass = 0;
    while (kept < candidates_.size() && (kept == 0 || mass < params.top_p * total)) {
      if (kept == ranked) {
        ranked = std::min(candidates_.size(), ranked == 0 ? 256 : ranked * 4);
        RankBest(ranked);
      }
      mass += weight(candidates_[kept++]);
    }
    candidates_.resize(kept);
  }
  std::sort(candidates_.begin(), candidates_.end());
  double total = 0;
  for (std::int32_t id : candidates_) total += weight(id);
  double cumulative = 0;
  for (std::int32_t id : candidates_) {
    cumulative += weight(id);
    if (cumulative > unit * total) return TokenId(id);
  }
  return TokenId(candidates_.back());
}

}  // namespace tandem::engine
