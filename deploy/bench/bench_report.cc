#include "deploy/bench/bench_report.h"

#include <fmt/format.h>

#include <boost/json.hpp>

namespace tandem::deploy {
namespace {

namespace json = boost::json;

json::object QuantilesJson(const Quantiles& q) {
  return {{"count", q.count}, {"mean", q.mean}, {"p50", q.p50},
          {"p90", q.p90},     {"p99", q.p99},   {"max", q.max}};
}

json::object ErrorsJson(const RunSummary& summary) {
  json::object errors;
  for (int i = 1; i < kNumOutcomes; ++i) {
    const auto outcome = static_cast<Outcome>(i);
    const std::int64_t count = summary.outcomes[static_cast<std::size_t>(i)];
    if (outcome != Outcome::kCancelled && count > 0) errors[OutcomeName(outcome).data()] = count;
  }
  return errors;
}

json::object StatusesJson(const RunSummary& summary) {
  json::object statuses;
  for (const auto& [status, count] : summary.http_statuses) {
    statuses[std::to_string(status)] = count;
  }
  return statuses;
}

json::object SummaryJson(const RunSummary& s) {
  json::object out{{"window_s", ToSeconds(s.window)},
                   {"requests", s.counted},
                   {"succeeded", s.succeeded()},
                   {"failed", s.failed()},
                   {"cancelled", s.cancelled()},
                   {"different", s.different},
                   {"compared", s.compared},
                   {"errors", ErrorsJson(s)},
                   {"http_statuses", StatusesJson(s)},
                   {"first_failure", s.first_failure},
                   {"first_difference", s.first_difference},
                   {"without_usage", s.without_usage},
                   {"prompt_tokens", s.prompt_tokens},
                   {"output_tokens", s.tokens},
                   {"requests_per_s", s.requests_per_s},
                   {"output_tokens_per_s", s.tokens_per_s},
                   {"ttft_ms", QuantilesJson(s.ttft)},
                   {"itl_ms", QuantilesJson(s.itl)},
                   {"tpot_ms", QuantilesJson(s.tpot)},
                   {"e2e_ms", QuantilesJson(s.e2e)},
                   {"pause_ms", QuantilesJson(s.pause)}};
  if (s.good) {
    out["good"] = *s.good;
    out["goodput_per_s"] = static_cast<double>(*s.good) / std::max(ToSeconds(s.window), 1e-9);
  }
  if (s.with_timings > 0) {
    out["timings"] = {{"requests", s.with_timings},
                      {"with_further_attempts", s.retried},
                      {"with_further_placements", s.replaced},
                      {"attempts_max", s.attempts_max}};
  }
  return out;
}

json::object GeneratorJson(const LoadRun::Result& run) {
  const OwnLateness& own = run.lateness;
  return {{"sent", own.sends()},
          {"late_sends", own.late_sends()},
          {"latest_send_ms", ToMillis(own.latest_send())},
          {"not_sent", own.not_sent()},
          {"longest_stall_ms", ToMillis(own.longest_stall())},
          {"stalled_s", ToSeconds(own.stalled())},
          {"cpu_share", run.cpu_share},
          {"in_flight_max", run.in_flight_max}};
}

void AddQuantiles(std::string& out, std::string_view name, const Quantiles& q) {
  if (q.count == 0) return;
  out += fmt::format("{:<16}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}\n", name, q.mean, q.p50,
                     q.p90, q.p99, q.max);
}

template <typename... Args>
void AddLine(std::string& out, std::string_view name, fmt::format_string<Args...> format,
             Args&&... args) {
  out += fmt::format("{:<16}{}\n", name, fmt::format(format, std::forward<Args>(args)...));
}

void AddErrors(std::string& out, const RunSummary& s) {
  for (int i = 1; i < kNumOutcomes; ++i) {
    const std::int64_t count = s.outcomes[static_cast<std::size_t>(i)];
    if (count > 0) AddLine(out, "", "{} {}", count, OutcomeName(static_cast<Outcome>(i)));
  }
  for (const auto& [status, count] : s.http_statuses) {
    AddLine(out, "", "{} HTTP {}", count, status);
  }
  if (!s.first_failure.empty()) AddLine(out, "first failure", "{}", s.first_failure);
  if (s.compared > 0) AddLine(out, "compared", "{}, {} different", s.compared, s.different);
  if (!s.first_difference.empty()) AddLine(out, "first different", "{}", s.first_difference);
  if (s.without_usage > 0) {
    AddLine(out, "no usage", "{} answers; their tokens are counted as events", s.without_usage);
  }
}

}  // namespace

std::string BenchReport::Table() const {
  const RunSummary& s = summary;
  std::string out;
  AddLine(out, "model", "{}", model);
  AddLine(out, "requests", "{} in {:.2f} s: {} succeeded, {} failed, {} cancelled", s.counted,
          ToSeconds(s.window), s.succeeded(), s.failed(), s.cancelled());
  AddErrors(out, s);
  AddLine(out, "throughput", "{:.2f} requests/s, {:.1f} output tokens/s", s.requests_per_s,
          s.tokens_per_s);
  AddLine(out, "tokens", "{} in, {} out, of what succeeded", s.prompt_tokens, s.tokens);
  if (s.good) {
    AddLine(out, "goodput", "{:.2f} requests/s, {:.1f} % of all",
            static_cast<double>(*s.good) / std::max(ToSeconds(s.window), 1e-9),
            100.0 * static_cast<double>(*s.good) /
                static_cast<double>(std::max<std::int64_t>(s.counted, 1)));
  }
  if (s.with_timings > 0) {
    AddLine(out, "fail-over", "{} with further attempts (at most {}), {} with further placements",
            s.retried, s.attempts_max, s.replaced);
  }
  out += fmt::format("\n{:<16}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "milliseconds", "mean", "p50",
                     "p90", "p99", "max");
  AddQuantiles(out, "TTFT", s.ttft);
  AddQuantiles(out, "ITL", s.itl);
  AddQuantiles(out, "TPOT", s.tpot);
  AddQuantiles(out, "end to end", s.e2e);
  AddQuantiles(out, "longest pause", s.pause);
  const OwnLateness& own = run.lateness;
  out += '\n';
  AddLine(out, "generator",
          "{} of {} sent late, longest stall {:.1f} ms, {:.0f} % of a core, {} in flight at most",
          own.late_sends(), own.sends(), ToMillis(own.longest_stall()), 100 * run.cpu_share,
          run.in_flight_max);
  for (const std::string& reason : invalid_because) AddLine(out, "INVALID", "{}", reason);
  return out;
}

json::object BenchReport::Json(json::object config) const {
  json::array invalid;
  for (const std::string& reason : invalid_because) invalid.emplace_back(reason);
  json::array timeline;
  for (const TimelineSecond& second : summary.timeline) {
    timeline.push_back({{"sent", second.sent},
                        {"succeeded", second.succeeded},
                        {"failed", second.failed},
                        {"tokens", second.tokens}});
  }
  return {{"format", "tandem-bench-1"},
          {"valid", valid()},
          {"invalid_because", std::move(invalid)},
          {"interrupted", run.interrupted},
          {"model", model},
          {"started_unix_s", started_unix_s},
          {"started_monotonic_s", ToSeconds(run.start.time_since_epoch())},
          {"elapsed_s", ToSeconds(run.elapsed)},
          {"config", std::move(config)},
          {"summary", SummaryJson(summary)},
          {"generator", GeneratorJson(run)},
          {"timeline", std::move(timeline)}};
}

json::object RecordJson(const RequestRecord& r) {
  json::object out{{"index", r.index},
                   {"line", r.item + 1},
                   {"outcome", OutcomeName(r.outcome).data()},
                   {"http_status", r.http_status},
                   {"detail", r.detail},
                   {"difference", r.difference},
                   {"planned_s", ToSeconds(r.planned)},
                   {"sent_s", ToSeconds(r.sent)},
                   {"first_s", r.first ? json::value(ToSeconds(*r.first)) : json::value()},
                   {"last_s", r.last ? json::value(ToSeconds(*r.last)) : json::value()},
                   {"end_s", ToSeconds(r.end)},
                   {"pause_ms", ToMillis(r.pause)},
                   {"pause_at_s", ToSeconds(r.pause_at)},
                   {"prompt_tokens", r.prompt_tokens},
                   {"tokens", r.tokens},
                   {"events", r.events},
                   {"finish_reason", r.finish_reason},
                   {"text_hash", r.text_hash}};
  if (r.attempts) out["attempts"] = *r.attempts;
  if (r.placements) out["placements"] = *r.placements;
  return out;
}

}  // namespace tandem::deploy
