#include "deploy/sim/pause_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace tandem::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kDeathAim = seconds(1);
constexpr Duration kSilenceAim = milliseconds(3500);
constexpr Duration kArrivals = milliseconds(100);
constexpr Duration kFaultWithin = milliseconds(130);  // while most streams run
constexpr Duration kRestart = milliseconds(300);

Duration Between(SplitMix64& random, Duration low, Duration high) {
  const auto span = static_cast<std::uint64_t>((high - low) / microseconds(1));
  return low + microseconds(static_cast<std::int64_t>(random.Below(span + 1)));
}

// As tests/fault/chaos: 0.5–5 s, one in ten up to 30 s.
Duration StopLength(SplitMix64& random) {
  return Between(random, milliseconds(500), random.Below(10) == 0 ? seconds(30) : seconds(5));
}

Fault On(FaultKind kind, const char* target, Duration length, std::int32_t count = 0) {
  Fault fault;
  fault.kind = kind;
  fault.target = target;
  fault.length = length;
  fault.count = count;
  return fault;
}

Fault Between(FaultKind kind, const char* target, const char* other, Duration length) {
  Fault fault = On(kind, target, length);
  fault.other = other;
  return fault;
}

// A reset; one in two with a while in which no new connection is taken.
Fault Reset(SplitMix64& random, const char* target, const char* other) {
  const Duration refused =
      random.Below(2) == 0 ? Duration(0) : Between(random, milliseconds(10), seconds(5));
  return Between(FaultKind::kCut, target, other, refused);
}

// By SIGTERM, by the router or in a hurry.
Fault Drain(SplitMix64& random, const char* target) {
  return On(FaultKind::kDrain, target, kRestart, 1 + static_cast<std::int32_t>(random.Below(3)));
}

Fault Silence(SplitMix64& random, const char* target, const char* other) {
  return Between(FaultKind::kPartition, target, other, StopLength(random));
}

constexpr Duration kNone{0};

constexpr std::array kKinds = {
    PauseKind{"kill prefill", kDeathAim, 2,
              [](SplitMix64&) { return On(FaultKind::kCrash, "prefill-0", kRestart); }},
    PauseKind{"kill decode", kDeathAim, 2,
              [](SplitMix64&) { return On(FaultKind::kCrash, "decode-0", kRestart); }},
    PauseKind{"stop prefill", kSilenceAim, 2,
              [](SplitMix64& r) { return On(FaultKind::kStop, "prefill-0", StopLength(r)); }},
    PauseKind{"stop decode", kSilenceAim, 2,
              [](SplitMix64& r) { return On(FaultKind::kStop, "decode-0", StopLength(r)); }},
    PauseKind{"stop router", kSilenceAim, 2,
              [](SplitMix64& r) { return On(FaultKind::kStop, "router", StopLength(r)); }},
    PauseKind{"reset router-prefill", kSilenceAim, 2,
              [](SplitMix64& r) { return Reset(r, "router", "prefill-0"); }},
    PauseKind{"reset router-decode", kSilenceAim, 2,
              [](SplitMix64& r) { return Reset(r, "router", "decode-0"); }},
    PauseKind{"reset prefill-decode", kSilenceAim, 2,
              [](SplitMix64& r) { return Reset(r, "prefill-0", "decode-0"); }},
    PauseKind{"silence router-prefill", kSilenceAim, 2,
              [](SplitMix64& r) { return Silence(r, "router", "prefill-0"); }},
    PauseKind{"silence router-decode", kSilenceAim, 2,
              [](SplitMix64& r) { return Silence(r, "router", "decode-0"); }},
    PauseKind{"silence prefill-decode", kSilenceAim, 2,
              [](SplitMix64& r) { return Silence(r, "prefill-0", "decode-0"); }},
    // Nobody else can take over: what counts is how soon it is used again.
    PauseKind{"kill the only prefill", kDeathAim, 1,
              [](SplitMix64&) { return On(FaultKind::kCrash, "prefill-0", kRestart); }},
    PauseKind{"kill the only decode", kDeathAim, 1,
              [](SplitMix64&) { return On(FaultKind::kCrash, "decode-0", kRestart); }},
    PauseKind{"stop the only prefill", kSilenceAim, 1,
              [](SplitMix64& r) { return On(FaultKind::kStop, "prefill-0", StopLength(r)); }},
    PauseKind{"stop the only decode", kSilenceAim, 1,
              [](SplitMix64& r) { return On(FaultKind::kStop, "decode-0", StopLength(r)); }},
    PauseKind{"silence r-p, one pair", kSilenceAim, 1,
              [](SplitMix64& r) { return Silence(r, "router", "prefill-0"); }},
    PauseKind{"silence r-d, one pair", kSilenceAim, 1,
              [](SplitMix64& r) { return Silence(r, "router", "decode-0"); }},
    PauseKind{"silence p-d, one pair", kSilenceAim, 1,
              [](SplitMix64& r) { return Silence(r, "prefill-0", "decode-0"); }},
    PauseKind{"drain prefill", kNone, 2, [](SplitMix64& r) { return Drain(r, "prefill-0"); }},
    PauseKind{"drain decode", kNone, 2, [](SplitMix64& r) { return Drain(r, "decode-0"); }},
};

}  // namespace

std::span<const PauseKind> PauseKinds() { return kKinds; }

SimOptions PauseHistory(const PauseKind& kind, std::uint64_t seed) {
  SplitMix64 random(Mix64(seed) ^ 0x9a05e);
  SimOptions options;
  options.seed = seed;
  options.proof = random.Below(2) == 0 ? handoff::Proof::kWriter : handoff::Proof::kReceives;
  options.prefill_nodes = options.decode_nodes = kind.nodes;
  options.num_layers = 2;
  options.prefill_blocks = options.decode_blocks = 200;  // nobody waits for room
  options.prompt_max = 120;
  options.output_max = 160;
  options.arrivals = kArrivals;
  options.deadline = seconds(60);
  options.cancel_percent = options.stop_string_percent = options.slow_client_percent = 0;
  Fault fault = kind.draw(random);
  fault.at = Between(random, milliseconds(1), kFaultWithin);
  options.faults = {std::move(fault)};
  return options;
}

PauseSummary StudyPauses(const PauseKind& kind, std::uint64_t first_seed, std::uint64_t seeds) {
  PauseSummary sum;
  sum.kind = kind.name;
  sum.aim = kind.aim;
  std::vector<std::pair<Duration, std::uint64_t>> pauses;
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    const SimReport report = Simulate(PauseHistory(kind, seed));
    ++sum.histories;
    sum.streams += report.done + report.failed + report.cut + report.cancelled;
    sum.failed += report.failed + report.cut;
    if (!report.ok()) sum.violations.push_back(fmt::format("seed {}: {}", seed, report.violation));
    for (const StreamPause& pause : report.pauses) {
      pauses.emplace_back(pause.beyond, seed);
      sum.whole_max = std::max(sum.whole_max, pause.whole);
    }
  }
  if (pauses.empty()) return sum;
  std::sort(pauses.begin(), pauses.end());
  sum.paused = static_cast<std::int64_t>(pauses.size());
  auto quantile = [&](double share) {
    return pauses[static_cast<std::size_t>(static_cast<double>(pauses.size() - 1) * share)].first;
  };
  sum.p50 = quantile(0.5);
  sum.p99 = quantile(0.99);
  std::tie(sum.max, sum.max_seed) = pauses.back();
  return sum;
}

std::string ToString(std::span<const PauseSummary> rows) {
  std::string out =
      fmt::format("{:24}{:>10}{:>9}{:>8}{:>8}{:>9}{:>9}{:>9}{:>9}{:>10}\n", "fault", "histories",
                  "streams", "failed", "paused", "p50 s", "p99 s", "max s", "aim s", "whole s");
  for (const PauseSummary& row : rows) {
    out += fmt::format("{:24}{:>10}{:>9}{:>8}{:>8}{:>9.3f}{:>9.3f}{:>9.3f}{:>9}{:>10.3f}{}\n",
                       row.kind, row.histories, row.streams, row.failed, row.paused,
                       ToSeconds(row.p50), ToSeconds(row.p99), ToSeconds(row.max),
                       row.aim == Duration(0) ? "–" : fmt::format("{:.1f}", ToSeconds(row.aim)),
                       ToSeconds(row.whole_max), row.ok() ? "" : "  MISSED");
    for (const std::string& violation : row.violations) out += "  " + violation + "\n";
  }
  return out;
}

}  // namespace tandem::sim
