#include "common/engine/stage_times.h"

#include "common/base/check.h"

namespace tandem::engine {

std::string_view Name(Stage stage) {
  static constexpr std::array<std::string_view, kStages> kNames = {
      "outside", "embed",    "norm", "qkv",  "store kv", "attention", "output",
      "gate+up", "activate", "down", "head", "sample",   "wait"};
  return kNames[static_cast<std::size_t>(stage)];
}

std::chrono::nanoseconds StageTimes::SteadyNow() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

StageTimes::StageTimes(int num_threads, Now now) : now_(now) {
  TANDEM_CHECK(num_threads >= 1);
  threads_.resize(static_cast<std::size_t>(num_threads));
  Reset();
}

void StageTimes::Enter(int thread_idx, Stage stage) {
  Thread& thread = threads_[static_cast<std::size_t>(thread_idx)];
  const std::chrono::nanoseconds now = now_();
  thread.spent[static_cast<std::size_t>(thread.stage)] += now - thread.since;
  thread.since = now;
  thread.stage = stage;
}

std::chrono::nanoseconds StageTimes::Of(int thread_idx, Stage stage) const {
  return threads_[static_cast<std::size_t>(thread_idx)].spent[static_cast<std::size_t>(stage)];
}

void StageTimes::Reset() {
  const std::chrono::nanoseconds now = now_();
  for (Thread& thread : threads_) thread = {.spent = {}, .since = now, .stage = Stage::kOutside};
}

}  // namespace tandem::engine
