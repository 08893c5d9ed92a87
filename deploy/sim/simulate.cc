#include "deploy/sim/simulate.h"

#include <fmt/format.h>

#include <cstdio>

#include "deploy/sim/campaign.h"
#include "deploy/sim/pause_study.h"
#include "deploy/sim/simulation.h"

namespace tandem::deploy {
namespace {

constexpr int kMost = 1'000'000'000;

Status OneHistory(const SimulateOptions& options) {
  sim::SimOptions history = sim::DrawHistory(static_cast<std::uint64_t>(options.seed));
  if (!options.faults) history.faults.clear();
  if (!options.plan.empty()) {
    TANDEM_ASSIGN_OR_RETURN(history.faults, sim::ParseFaultPlan(options.plan));
  }
  if (options.requests > 0) history.requests = options.requests;
  history.trace_lines = static_cast<std::size_t>(options.trace);
  const sim::SimReport report = sim::Simulate(history);
  for (const std::string& line : report.trace) fmt::print("{}\n", line);
  fmt::print(
      "seed {}: {} events, {:.3f} s of virtual time; {} done, {} cancelled, {} failed, {} "
      "ended with their router; faults: {}\n",
      options.seed, report.events, ToSeconds(report.virtual_time), report.done, report.cancelled,
      report.failed, report.cut, sim::ToString(history.faults));
  if (report.ok()) return OkStatus();
  if (options.trace == 0) fmt::print("{}", sim::DescribeFailure(history));
  return Internal("seed {}: {}", options.seed, report.violation);
}

Status Pauses(const SimulateOptions& options) {
  std::vector<sim::PauseSummary> rows;
  bool ok = true;
  for (const sim::PauseKind& kind : sim::PauseKinds()) {
    rows.push_back(sim::StudyPauses(kind, static_cast<std::uint64_t>(options.first_seed),
                                    static_cast<std::uint64_t>(options.seeds)));
    ok = ok && rows.back().ok();
  }
  fmt::print("{}", sim::ToString(rows));
  return ok ? OkStatus() : Internal("some streams failed, or paused for longer than aimed at");
}

}  // namespace

void SimulateOptions::Register(config::ProgramOptions& options) {
  options.Add("faults", "", "1 to 3 faults in each history", config::Switch(&faults));
  options.Add("pauses", "",
              "how long streams pause, by kind of fault: `seeds` histories of one fault each",
              config::Switch(&pauses));
  options.Add("seeds", "N", "how many histories", config::Int(&seeds, 1, kMost));
  options.Add("first-seed", "N", "seed of the first", config::Int(&first_seed, 1, kMost));
  options.Add("seed", "N", "run this one history alone", config::Int(&seed, 0, kMost));
  options.Add("threads", "N", "histories at a time", config::Int(&threads, 1, 256));
  options.Add("plan", "FAULTS",
              "of --seed: these faults, as printed (\"crash decode-0 @e120 for 300ms; …\")",
              config::Text(&plan));
  options.Add("requests", "N", "of --seed: as many requests; 0: as drawn",
              config::Int(&requests, 0, 1000));
  options.Add("trace", "LINES", "of --seed: print its last events", config::Int(&trace, 0, kMost));
}

Status RunSimulate(const SimulateOptions& options) {
  if (options.seed > 0) return OneHistory(options);
  if (!options.plan.empty() || options.trace > 0 || options.requests > 0) {
    return InvalidArgument("--plan, --trace and --requests are for one history: give its --seed");
  }
  if (options.pauses) return Pauses(options);
  sim::CampaignOptions campaign;
  campaign.first_seed = static_cast<std::uint64_t>(options.first_seed);
  campaign.seeds = static_cast<std::uint64_t>(options.seeds);
  campaign.threads = options.threads;
  campaign.faults = options.faults;
  const sim::CampaignSummary sum = sim::RunCampaign(campaign, [&](std::uint64_t through) {
    if (through % 10'000 == 0) fmt::print(stderr, "{} of {} histories\n", through, options.seeds);
  });
  for (const auto& failure : sum.failures) {
    sim::SimOptions history = sim::DrawHistory(failure.seed);
    if (!options.faults) history.faults.clear();
    fmt::print("{}\n", sim::DescribeFailure(history));
  }
  fmt::print("{}", sum.ToString());
  if (sum.failures.empty()) return OkStatus();
  return Internal("{} of {} histories broke a rule; the first: tandem simulate{} --seed {}",
                  sum.failures.size(), sum.histories, options.faults ? " --faults" : "",
                  sum.failures.front().seed);
}

}  // namespace tandem::deploy
