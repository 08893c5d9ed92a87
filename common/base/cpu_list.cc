#include "common/base/cpu_list.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "common/base/check.h"

namespace tandem {
namespace {

constexpr int kMostCpus = 4096;

std::optional<int> ParseCpu(std::string_view text) {
  int cpu = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpu);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (cpu < 0 || cpu >= kMostCpus) return std::nullopt;
  return cpu;
}

// A set of the system's that has room for kMostCpus.
class CpuSet {
 public:
  CpuSet() : set_(CPU_ALLOC(kMostCpus)) {
    TANDEM_CHECK(set_ != nullptr);
    CPU_ZERO_S(bytes(), set_);
  }
  ~CpuSet() { CPU_FREE(set_); }
  CpuSet(const CpuSet&) = delete;
  CpuSet& operator=(const CpuSet&) = delete;

  static std::size_t bytes() { return CPU_ALLOC_SIZE(kMostCpus); }
  cpu_set_t* get() { return set_; }
  void Add(int cpu) { CPU_SET_S(static_cast<std::size_t>(cpu), bytes(), set_); }
  bool Has(int cpu) const { return CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes(), set_); }

 private:
  cpu_set_t* set_;
};

}  // namespace

StatusOr<CpuList> ParseCpuList(std::string_view text) {
  CpuList cpus;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, comma - begin);
    begin = comma + 1;
    const std::size_t dash = part.find('-');
    const auto first = ParseCpu(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : ParseCpu(part.substr(dash + 1));
    if (!first.has_value() || !last.has_value() || *last < *first) {
      return InvalidArgument(
          "'{}' in the CPU list '{}' is neither a CPU (0 to {}) nor a range of them: write 0-3,8",
          part, text, kMostCpus - 1);
    }
    for (int cpu = *first; cpu <= *last; ++cpu) {
      if (std::find(cpus.begin(), cpus.end(), cpu) != cpus.end()) {
        return InvalidArgument("CPU {} is named twice in the CPU list '{}'", cpu, text);
      }
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

std::string FormatCpuList(const CpuList& cpus) {
  std::string out;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    out += fmt::format("{}{}", out.empty() ? "" : ",", cpus[i]);
    if (end - i > 1) out += fmt::format("-{}", cpus[end - 1]);
    i = end;
  }
  return out;
}

StatusOr<CpuList> AllowedCpus() {
  CpuSet set;
  if (::sched_getaffinity(0, CpuSet::bytes(), set.get()) != 0) {
    return Unavailable("cannot ask which CPUs this process may use: {}", std::strerror(errno));
  }
  CpuList cpus;
  for (int cpu = 0; cpu < kMostCpus; ++cpu) {
    if (set.Has(cpu)) cpus.push_back(cpu);
  }
  return cpus;
}

Status CheckAllowed(const CpuList& cpus) {
  TANDEM_ASSIGN_OR_RETURN(const CpuList allowed, AllowedCpus());
  for (int cpu : cpus) {
    if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end()) {
      return InvalidArgument("CPU {} does not exist or is not this process's: it may use {}", cpu,
                             FormatCpuList(allowed));
    }
  }
  return OkStatus();
}

CpuList OneForEachThread(const CpuList& allowed, int threads) {
  if (threads == 0 || static_cast<std::size_t>(threads) == allowed.size()) return allowed;
  return {};
}

Status BindThisThread(const CpuList& cpus) {
  TANDEM_CHECK(!cpus.empty());
  CpuSet set;
  for (int cpu : cpus) set.Add(cpu);
  if (::sched_setaffinity(0, CpuSet::bytes(), set.get()) != 0) {
    return Unavailable("cannot bind a thread to CPUs {}: {}", FormatCpuList(cpus),
                       std::strerror(errno));
  }
  return OkStatus();
}

Status TryBinding(const CpuList& cpus) {
  Status bound;
  std::thread([&] { bound = BindThisThread(cpus); }).join();
  return bound;
}

}  // namespace tandem
