#include "tests/museum/museum.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <utility>

#include "common/base/check.h"
#include "tests/museum/active.h"

namespace tandem::museum {
namespace {

constexpr Entry kCatalogue[] = {
#include "tests/museum/catalogue.inc"
};
constexpr rlim_t kCpuSeconds = 120;  // of one child; more is a history that does not end

// What a child says over its pipe: the seed it runs, then how it broke; nothing more when it did
// not.
struct Report {
  std::uint64_t seed = 0;
  std::string violation;
  bool ended = false;
};

Report InChild(const std::function<void(int)>& run) {
  int ends[2];
  TANDEM_CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  TANDEM_CHECK(child >= 0);
  if (child == 0) {
    close(ends[0]);
    const rlimit limit{kCpuSeconds, kCpuSeconds};
    setrlimit(RLIMIT_CPU, &limit);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    (void)!freopen("/dev/null", "w", stderr);
    run(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    said.append(buffer, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  Report report;
  report.ended = WIFEXITED(status);
  // Lines: "s SEED" as it begins, "v TEXT" as it breaks.
  for (std::size_t at = 0; at < said.size();) {
    const std::size_t end = std::min(said.find('\n', at), said.size());
    const std::string line = said.substr(at, end - at);
    if (line.starts_with("s ")) report.seed = std::stoull(line.substr(2));
    if (line.starts_with("v ")) report.violation = line.substr(2);
    at = end + 1;
  }
  if (!report.ended) {
    report.violation = WTERMSIG(status) == SIGXCPU   ? "does not end"
                       : WTERMSIG(status) == SIGABRT ? "a check of the code fails"
                                                     : "crashes";
  }
  return report;
}

void Say(int pipe, const std::string& line) { (void)!write(pipe, line.data(), line.size()); }

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

bool Breaks(int number, const sim::SimOptions& options) {
  return !InChild([&](int pipe) {
            active = number;
            const sim::SimReport report = sim::Simulate(options);
            if (!report.ok()) Say(pipe, "v " + OneLine(report.violation) + "\n");
          }).violation.empty();
}

}  // namespace

std::span<const Entry> Catalogue() { return kCatalogue; }

std::optional<Find> Search(int number, std::uint64_t first, std::uint64_t count) {
  const std::uint64_t end = first + count;
  while (first < end) {
    const Report report = InChild([&](int pipe) {
      active = number;
      for (std::uint64_t seed = first; seed < end; ++seed) {
        Say(pipe, "s " + std::to_string(seed) + "\n");
        const sim::SimReport history = sim::Simulate(sim::DrawHistory(seed));
        if (history.ok()) continue;
        Say(pipe, "v " + OneLine(history.violation) + "\n");
        return;
      }
    });
    if (report.violation.empty()) return std::nullopt;
    const bool by_mutant = number < 0 || !Breaks(-1, sim::DrawHistory(report.seed));
    if (by_mutant) return Find{report.seed, report.violation};
    first = report.seed + 1;
  }
  return std::nullopt;
}

sim::SimOptions ShrinkWith(int number, sim::SimOptions options) {
  for (bool again = true; again;) {
    again = false;
    for (std::size_t i = options.faults.size(); i-- > 0;) {
      sim::SimOptions simpler = options;
      simpler.faults.erase(simpler.faults.begin() + static_cast<std::ptrdiff_t>(i));
      if (!Breaks(number, simpler)) continue;
      options = std::move(simpler);
      again = true;
    }
  }
  while (options.requests > 1) {
    sim::SimOptions simpler = options;
    --simpler.requests;
    if (!Breaks(number, simpler)) break;
    options = std::move(simpler);
  }
  return options;
}

}  // namespace tandem::museum
