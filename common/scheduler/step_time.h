// Predicts how long an engine step takes, from the steps seen so far:
//
//   seconds = fixed + per_token * tokens + per_pair * pairs
//
// (prefill: tokens and token pairs; decode: sequences and KV tokens; a transfer: writes and bytes).
// Least squares over all observations, older ones fading, coefficients not negative. A step far off
// its prediction, by what is usual, counts less, so that one that was held up bends nothing; many
// of them are a change, and followed. The same observations in the same order give the same bits.
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "common/base/time.h"

namespace tandem::scheduler {

struct StepTime {
  double fixed_s = 0;
  double per_token_s = 0;
  double per_pair_s = 0;
  double Seconds(double tokens, double pairs) const {
    return fixed_s + per_token_s * tokens + per_pair_s * pairs;
  }
};

// Token pairs of a chunk: each of its tokens with itself and every earlier one.
constexpr double ChunkPairs(std::int64_t first, std::int64_t count) {
  return static_cast<double>(count) * static_cast<double>(first) +
         static_cast<double>(count) * static_cast<double>(count + 1) / 2;
}

// The step that the engine works on, from its start and end alone: it ages for as long as the
// engine does not answer, whatever other threads do.
struct StepProgress {
  std::uint64_t number = 0;
  Duration running_for{0};  // zero: no step runs
  Duration stuck_after{0};  // of this step
};

// A step of so much work that runs for longer than this is stuck: max(10 s, 20 × its prediction).
// Without a fit the node is taken for a very slow one, so that its first long step is no death.
Duration StuckAfter(const StepTime& fit, double tokens, double pairs);

class StepTimeFit {
 public:
  // How good a fit is.
  struct Quality {
    StepTime time;
    std::int64_t observations = 0;
    // Mean |predicted - seen| / seen, each step predicted before it was seen; older ones fading.
    double error = 0;
  };

  void Observe(double tokens, double pairs, Duration took);
  // All zero before the first observation.
  const StepTime& time() const { return time_; }
  // Zero before the first observation.
  Duration Predict(double tokens, double pairs) const;
  Quality quality() const { return {time_, observations_, error_}; }

 private:
  double Weigh(double predicted, double seen);
  void Solve();

  // Normal equations of features (1, tokens, pairs), each scaled by kScale.
  std::array<std::array<double, 3>, 3> xx_{};
  std::array<double, 3> xy_{};
  StepTime time_;
  std::int64_t observations_ = 0;
  double error_ = 0;
  double usual_ = 0.5;  // about a third of the steps are further off their prediction
};

}  // namespace tandem::scheduler
