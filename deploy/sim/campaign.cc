#include "deploy/sim/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

namespace tandem::sim {
namespace {

constexpr std::uint64_t kProgressEvery = 500;  // histories
constexpr std::size_t kTraceLines = 60;

// What one thread adds up.
struct Part {
  CampaignSummary sum;
  std::vector<std::uint64_t> events;                       // of each history
  std::vector<std::pair<Duration, std::uint64_t>> pauses;  // with its seed
};

// The value below which `share` of them lie; reorders. Requires: not empty.
template <typename Value>
Value Quantile(std::vector<Value>& values, double share) {
  const auto index = static_cast<std::ptrdiff_t>(static_cast<double>(values.size() - 1) * share);
  std::nth_element(values.begin(), values.begin() + index, values.end());
  return values[static_cast<std::size_t>(index)];
}

void Add(const SimReport& report, std::uint64_t seed, Part& part) {
  CampaignSummary& sum = part.sum;
  ++sum.histories;
  sum.events += report.events;
  part.events.push_back(report.events);
  Duration longest{0};
  for (const StreamPause& pause : report.pauses) longest = std::max(longest, pause.beyond);
  part.pauses.emplace_back(longest, seed);
  if (report.calm_wait_max > sum.calm_wait_max) {
    sum.calm_wait_max = report.calm_wait_max;
    sum.calm_wait_seed = seed;
  }
  if (report.settled_after > sum.settled_max) {
    sum.settled_max = report.settled_after;
    sum.settled_seed = seed;
  }
  for (std::size_t i = 0; i < kFaultKinds; ++i) sum.faults[i] += report.faults[i];
  sum.done += report.done;
  sum.cancelled += report.cancelled;
  sum.failed += report.failed;
  sum.cut += report.cut;
  sum.attempts += report.router.attempts;
  sum.placed_again += report.prefill.placed_again;
  sum.repeats += report.router.repeats;
  sum.repeats_different += report.router.repeats_different;
  if (!report.ok()) sum.failures.push_back({seed, report.violation});
}

void Merge(const CampaignSummary& from, CampaignSummary& into) {
  into.histories += from.histories;
  into.events += from.events;
  for (std::size_t i = 0; i < kFaultKinds; ++i) into.faults[i] += from.faults[i];
  into.done += from.done;
  into.cancelled += from.cancelled;
  into.failed += from.failed;
  into.cut += from.cut;
  into.attempts += from.attempts;
  into.placed_again += from.placed_again;
  into.repeats += from.repeats;
  into.repeats_different += from.repeats_different;
  if (from.calm_wait_max > into.calm_wait_max) {
    into.calm_wait_max = from.calm_wait_max;
    into.calm_wait_seed = from.calm_wait_seed;
  }
  if (from.settled_max > into.settled_max) {
    into.settled_max = from.settled_max;
    into.settled_seed = from.settled_seed;
  }
  into.failures.insert(into.failures.end(), from.failures.begin(), from.failures.end());
}

}  // namespace

CampaignSummary RunCampaign(const CampaignOptions& options,
                            const std::function<void(std::uint64_t)>& progress) {
  std::atomic<std::uint64_t> next{0}, through{0};
  std::atomic<std::size_t> failures{0};
  std::vector<Part> parts(static_cast<std::size_t>(std::max(options.threads, 1)));
  const Time start = SteadyNow();
  auto work = [&](Part& part) {
    for (std::uint64_t i = next++; i < options.seeds && failures < options.failures_max;
         i = next++) {
      const std::uint64_t seed = options.first_seed + i;
      SimOptions history = DrawHistory(seed);
      if (!options.faults) history.faults.clear();
      const SimReport report = Simulate(history);
      Add(report, seed, part);
      if (!report.ok()) ++failures;
      const std::uint64_t done = ++through;
      if (progress && done % kProgressEvery == 0) progress(done);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    threads.emplace_back([&, i] { work(parts[i]); });
  }
  work(parts[0]);
  for (std::thread& thread : threads) thread.join();

  CampaignSummary sum;
  std::vector<std::uint64_t> events;
  std::vector<std::pair<Duration, std::uint64_t>> pauses;
  for (const Part& part : parts) {
    Merge(part.sum, sum);
    events.insert(events.end(), part.events.begin(), part.events.end());
    pauses.insert(pauses.end(), part.pauses.begin(), part.pauses.end());
  }
  sum.took = SteadyNow() - start;
  if (!events.empty()) {
    sum.median_events = Quantile(events, 0.5);
    sum.pause_median = Quantile(pauses, 0.5).first;
    sum.pause_p99 = Quantile(pauses, 0.99).first;
    std::tie(sum.pause_max, sum.pause_max_seed) = Quantile(pauses, 1);
  }
  std::sort(sum.failures.begin(), sum.failures.end(),
            [](const auto& a, const auto& b) { return a.seed < b.seed; });
  return sum;
}

std::string CampaignSummary::ToString() const {
  std::string out = fmt::format(
      "{} histories, {} events (median {} each) in {:.1f} s: {:.0f} events/s\n"
      "{} requests done, {} cancelled, {} failed as excused, {} ended with their router; "
      "{} attempts, {} placed again, {} repeats, {} different\n"
      "longest pause of a history beyond re-prefill and time without a pair: median {:.3f} s, "
      "p99 {:.3f} s, max {:.3f} s (seed {})\n"
      "longest wait while all was calm {:.3f} s (seed {}); all given back after at most {:.1f} s "
      "(seed {})\nfaults:",
      histories, events, median_events, ToSeconds(took), events_per_second(), done, cancelled,
      failed, cut, attempts, placed_again, repeats, repeats_different, ToSeconds(pause_median),
      ToSeconds(pause_p99), ToSeconds(pause_max), pause_max_seed, ToSeconds(calm_wait_max),
      calm_wait_seed, ToSeconds(settled_max), settled_seed);
  for (std::size_t i = 0; i < kFaultKinds; ++i) {
    out += fmt::format(" {} {}", sim::ToString(static_cast<FaultKind>(i)), faults[i]);
  }
  return out + "\n";
}

std::string DescribeFailure(const SimOptions& options) {
  SimOptions traced = options;
  traced.trace_lines = kTraceLines;
  const SimReport first = Simulate(traced);
  std::string out = fmt::format("seed {}: {}\n  faults: {}\n", options.seed, first.violation,
                                ToString(options.faults));
  SimOptions small = Shrink(options);
  small.trace_lines = kTraceLines;
  const SimReport report = Simulate(small);
  out += fmt::format("  shrunk to {} requests: {}\n  faults: {}\n  the last events:\n",
                     small.requests, report.violation, ToString(small.faults));
  for (const std::string& line : report.trace) out += line + "\n";
  return out;
}

}  // namespace tandem::sim
