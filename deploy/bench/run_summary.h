// The figures of a run, out of its records.
//
// The window is what rates are counted in: from the end of the warm-up until sending ends (with
// --duration) or the last answer ends. A request counts when it was planned after the warm-up; its
// latencies enter when it succeeded. Quantiles are exact: nearest rank of all samples.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "deploy/bench/goodput_targets.h"
#include "deploy/bench/request_record.h"

namespace tandem::deploy {

// Milliseconds.
struct Quantiles {
  std::int64_t count = 0;
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};

// Sorts `samples_ms`. All zero when there is none.
Quantiles QuantilesOf(std::vector<float>& samples_ms);

// One second of the run, warm-up included.
struct TimelineSecond {
  std::int64_t sent = 0;
  std::int64_t succeeded = 0;  // by their end
  std::int64_t failed = 0;
  double tokens = 0;
};

struct RunSummary {
  Duration window{};
  std::int64_t counted = 0;  // requests; the sum of all outcomes
  std::array<std::int64_t, kNumOutcomes> outcomes{};
  std::map<int, std::int64_t> http_statuses;  // of kHttpStatus
  std::int64_t different = 0;                 // of any outcome
  std::int64_t compared = 0;                  // something was expected
  std::string first_difference;
  std::string first_failure;
  std::int64_t without_usage = 0;  // succeeded, but the server told no usage

  Quantiles ttft, itl, tpot, e2e, pause;
  std::int64_t prompt_tokens = 0;  // of requests that succeeded
  std::int64_t tokens = 0;
  double requests_per_s = 0;  // succeeded within the window
  double tokens_per_s = 0;    // arrived within the window, of any request
  std::optional<std::int64_t> good;
  std::int64_t with_timings = 0;
  std::int64_t retried = 0;   // more than one attempt
  std::int64_t replaced = 0;  // more placements than attempts
  std::int64_t attempts_max = 0;
  std::vector<TimelineSecond> timeline;

  std::int64_t succeeded() const { return outcomes[0]; }
  std::int64_t cancelled() const { return outcomes[static_cast<std::size_t>(Outcome::kCancelled)]; }
  std::int64_t failed() const { return counted - succeeded() - cancelled(); }
};

class RunCollector {
 public:
  RunCollector(Duration warmup, GoodputTargets targets) : warmup_(warmup), targets_(targets) {}

  void OnSent(Duration at) { SecondAt(at).sent++; }
  // `text_times`: as the stream's reader saw them. `compared`: something was expected of it.
  void Add(const RequestRecord& record, std::span<const Time> text_times, Time start,
           bool compared);

  // `window_end`: nothing: when the last counted request ended. Called once.
  RunSummary Finish(std::optional<Duration> window_end);

 private:
  TimelineSecond& SecondAt(Duration at);
  void AddSuccess(const RequestRecord& record, std::span<const Time> text_times);

  Duration warmup_;
  GoodputTargets targets_;
  RunSummary summary_;
  Duration last_end_{};
  std::vector<float> ttft_, itl_, tpot_, e2e_, pause_;
  // When tokens arrived and successes ended, for the window; seconds since the start.
  struct Weighted {
    float at_s;
    float weight;
  };
  std::vector<Weighted> tokens_;
  std::vector<float> success_ends_s_;
};

}  // namespace tandem::deploy
