#include "deploy/bench/run_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tandem::deploy {
namespace {

// A timeline longer than this ends there; the figures do not.
constexpr std::size_t kTimelineSecondsMax = 86'400;

float Millis(Duration duration) { return static_cast<float>(ToMillis(duration)); }

}  // namespace

Quantiles QuantilesOf(std::vector<float>& samples_ms) {
  if (samples_ms.empty()) return {};
  std::sort(samples_ms.begin(), samples_ms.end());
  const auto count = static_cast<double>(samples_ms.size());
  const auto rank = [&](double share) {
    const auto at = static_cast<std::size_t>(std::ceil(share * count));
    return static_cast<double>(samples_ms[std::max<std::size_t>(at, 1) - 1]);
  };
  Quantiles out;
  out.count = static_cast<std::int64_t>(samples_ms.size());
  out.mean = std::accumulate(samples_ms.begin(), samples_ms.end(), 0.0) / count;
  out.p50 = rank(0.50);
  out.p90 = rank(0.90);
  out.p99 = rank(0.99);
  out.max = static_cast<double>(samples_ms.back());
  return out;
}

TimelineSecond& RunCollector::SecondAt(Duration at) {
  const auto second =
      std::min(static_cast<std::size_t>(std::max(ToSeconds(at), 0.0)), kTimelineSecondsMax - 1);
  if (summary_.timeline.size() <= second) summary_.timeline.resize(second + 1);
  return summary_.timeline[second];
}

void RunCollector::Add(const RequestRecord& record, std::span<const Time> text_times, Time start,
                       bool compared) {
  const bool ok = record.outcome == Outcome::kOk;
  // A server may put several tokens into an event, or none.
  const double weight =
      record.events > 0 ? static_cast<double>(record.tokens) / static_cast<double>(record.events)
                        : 0;
  for (Time at : text_times) {
    SecondAt(at - start).tokens += weight;
    tokens_.push_back({static_cast<float>(ToSeconds(at - start)), static_cast<float>(weight)});
  }
  if (ok) {
    SecondAt(record.end).succeeded++;
    success_ends_s_.push_back(static_cast<float>(ToSeconds(record.end)));
  } else if (record.outcome != Outcome::kCancelled) {
    SecondAt(record.end).failed++;
  }
  if (record.planned < warmup_) return;

  summary_.counted++;
  summary_.outcomes[static_cast<std::size_t>(record.outcome)]++;
  last_end_ = std::max(last_end_, record.end);
  if (record.outcome == Outcome::kHttpStatus) summary_.http_statuses[record.http_status]++;
  if (!ok && record.outcome != Outcome::kCancelled && summary_.first_failure.empty()) {
    summary_.first_failure =
        fmt::format("request {} (line {}): {}: {}", record.index, record.item + 1,
                    OutcomeName(record.outcome), record.detail);
  }
  if (compared) summary_.compared++;
  if (!record.difference.empty()) {
    summary_.different++;
    if (summary_.first_difference.empty()) {
      summary_.first_difference =
          fmt::format("request {} (line {}): {}", record.index, record.item + 1, record.difference);
    }
  }
  if (ok) AddSuccess(record, text_times);
}

void RunCollector::AddSuccess(const RequestRecord& record, std::span<const Time> text_times) {
  if (!record.usage) summary_.without_usage++;
  summary_.prompt_tokens += record.prompt_tokens;
  summary_.tokens += record.tokens;
  if (record.first) {
    ttft_.push_back(Millis(record.Ttft()));
    pause_.push_back(Millis(record.pause));
  }
  if (record.tokens >= 2 && record.first) tpot_.push_back(Millis(record.Tpot()));
  e2e_.push_back(Millis(record.EndToEnd()));
  for (std::size_t i = 1; i < text_times.size(); ++i) {
    itl_.push_back(Millis(text_times[i] - text_times[i - 1]));
  }
  if (targets_.given())
    summary_.good = summary_.good.value_or(0) + (targets_.MetBy(record) ? 1 : 0);
  if (!record.attempts) return;
  summary_.with_timings++;
  if (*record.attempts > 1) summary_.retried++;
  if (record.placements.value_or(0) > *record.attempts) summary_.replaced++;
  summary_.attempts_max = std::max(summary_.attempts_max, *record.attempts);
}

RunSummary RunCollector::Finish(std::optional<Duration> window_end) {
  const Duration end = std::max(window_end.value_or(last_end_), warmup_);
  const auto inside = [from = ToSeconds(warmup_), to = ToSeconds(end)](float at_s) {
    return at_s >= from && at_s <= to;
  };
  summary_.window = end - warmup_;
  const double window_s = std::max(ToSeconds(summary_.window), 1e-9);
  double tokens = 0;
  for (const Weighted& token : tokens_) tokens += inside(token.at_s) ? token.weight : 0;
  summary_.tokens_per_s = tokens / window_s;
  summary_.requests_per_s =
      static_cast<double>(std::count_if(success_ends_s_.begin(), success_ends_s_.end(), inside)) /
      window_s;
  if (targets_.given() && !summary_.good) summary_.good = 0;
  summary_.ttft = QuantilesOf(ttft_);
  summary_.itl = QuantilesOf(itl_);
  summary_.tpot = QuantilesOf(tpot_);
  summary_.e2e = QuantilesOf(e2e_);
  summary_.pause = QuantilesOf(pause_);
  return std::move(summary_);
}

}  // namespace tandem::deploy
