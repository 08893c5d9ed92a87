#include "tests/bench/engine/engine_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <chrono>
#include <iterator>

namespace tandem::bench {
namespace {

using engine::Stage;

boost::json::object JsonOf(const Profile& profile) {
  boost::json::array stages;
  for (const StageRow& row : profile.stages) {
    stages.push_back({{"stage", std::string(engine::Name(row.stage))},
                      {"ms", row.seconds * 1e3},
                      {"share", row.share},
                      {"gop_s", row.giga_ops_s},
                      {"gb_s", row.gb_s}});
  }
  return {{"ms", profile.seconds * 1e3},
          {"linear_gop_s", profile.linear_giga_ops_s},
          {"weights_gb_s", profile.weights_gb_s},
          {"stages", std::move(stages)}};
}

boost::json::object JsonOf(const Ceiling& ceiling) {
  boost::json::object peaks;
  for (const Peak& peak : ceiling.peaks) peaks[peak.name] = peak.giga_ops_s;
  return {{"read_gb_s", ceiling.read_gb_s},
          {"read_bytes", ceiling.read_bytes},
          {"peak_gop_s", std::move(peaks)}};
}

double PeakFor(const Ceiling& ceiling, std::string_view numerics_class) {
  for (const Peak& peak : ceiling.peaks) {
    if (peak.name == PeakOf(numerics_class)) return peak.giga_ops_s;
  }
  return 0;
}

std::string RateOrDash(double rate) {
  return rate > 0 ? fmt::format("{:.1f}", rate) : std::string("-");
}

void AppendProfile(std::string& text, const std::string& name, const Profile& profile) {
  fmt::format_to(std::back_inserter(text), "\n{}: {:.2f} ms by stage\n", name,
                 profile.seconds * 1e3);
  fmt::format_to(std::back_inserter(text), "  {:<10}{:>10}{:>8}{:>10}{:>9}\n", "stage", "ms", "%",
                 "GOP/s", "GB/s");
  for (const StageRow& row : profile.stages) {
    fmt::format_to(std::back_inserter(text), "  {:<10}{:>10.3f}{:>8.1f}{:>10}{:>9}\n",
                   engine::Name(row.stage), row.seconds * 1e3, row.share * 100,
                   RateOrDash(row.giga_ops_s), RateOrDash(row.gb_s));
  }
}

}  // namespace

Profile ProfileOf(double seconds, const engine::StageTimes& times, const StageWork& work) {
  Profile profile{.seconds = seconds,
                  .linear_giga_ops_s = 0,
                  .weights_gb_s = work.weight_bytes() / seconds * 1e-9,
                  .stages = {}};
  double linear_seconds = 0;
  for (std::size_t i = 0; i < engine::kStages; ++i) {
    const auto stage = static_cast<Stage>(i);
    std::chrono::nanoseconds sum{};
    for (int thread = 0; thread < times.num_threads(); ++thread) sum += times.Of(thread, stage);
    const double mean = std::chrono::duration<double>(sum).count() / times.num_threads();
    if (mean <= 0) continue;
    if (StageWork::IsLinear(stage)) linear_seconds += mean;
    profile.stages.push_back({stage, mean, mean / seconds, work.ops(stage) / mean * 1e-9,
                              work.bytes(stage) / mean * 1e-9});
  }
  if (linear_seconds > 0) profile.linear_giga_ops_s = work.linear_ops() / linear_seconds * 1e-9;
  return profile;
}

double CaseResult::Median() const {
  std::vector<double> sorted = tokens_per_s;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

boost::json::object EngineReport::ToJson() const {
  boost::json::array rows;
  for (const CaseResult& result : cases) {
    boost::json::array rounds(result.tokens_per_s.begin(), result.tokens_per_s.end());
    boost::json::object row = {
        {"case", result.name}, {"tokens_per_s", std::move(rounds)}, {"median", result.Median()}};
    if (result.profile) row["profile"] = JsonOf(*result.profile);
    rows.push_back(std::move(row));
  }
  boost::json::object report = {{"model", model},         {"class", numerics_class},
                                {"threads", threads},     {"load_s", load_seconds},
                                {"packed_mb", packed_mb}, {"cases", std::move(rows)}};
  if (ceiling) {
    report["ceiling"] = JsonOf(*ceiling);
    report["peak_gop_s"] = PeakFor(*ceiling, numerics_class);
  }
  return report;
}

std::string EngineReport::ToText() const {
  std::string text =
      fmt::format("{}\nclass {}, {} threads, loaded in {:.2f} s, {:.0f} MB packed\n\n", model,
                  numerics_class, threads, load_seconds, packed_mb);
  for (const CaseResult& result : cases) {
    const auto [low, high] =
        std::minmax_element(result.tokens_per_s.begin(), result.tokens_per_s.end());
    fmt::format_to(std::back_inserter(text), "{:<14}{:>9.1f} tokens/s  ({:.1f} to {:.1f})\n",
                   result.name, result.Median(), *low, *high);
  }
  for (const CaseResult& result : cases) {
    if (result.profile) AppendProfile(text, result.name, *result.profile);
  }
  if (!ceiling) return text;
  const double peak = PeakFor(*ceiling, numerics_class);
  fmt::format_to(std::back_inserter(text),
                 "\nceiling: {:.1f} GB/s read over {} MB; GOP/s from registers:",
                 ceiling->read_gb_s, ceiling->read_bytes / 1000000);
  for (const Peak& each : ceiling->peaks) {
    fmt::format_to(std::back_inserter(text), " {} {:.0f}", each.name, each.giga_ops_s);
  }
  for (const CaseResult& result : cases) {
    if (!result.profile) continue;
    fmt::format_to(std::back_inserter(text),
                   "\n  {}: weights {:.0f} % of the bandwidth, matrix products {:.0f} % of '{}'",
                   result.name, result.profile->weights_gb_s / ceiling->read_gb_s * 100,
                   peak > 0 ? result.profile->linear_giga_ops_s / peak * 100 : 0,
                   PeakOf(numerics_class));
  }
  return text + "\n";
}

}  // namespace tandem::bench
