#include "deploy/sim/fault_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace tandem::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::array<std::string_view, kFaultKinds> kNames = {
    "crash",       "stop",        "cut",        "partition",   "slow-link", "lag",    "slow-worker",
    "slow-client", "client-gone", "failed-put", "failed-step", "corrupt",   "mute",   "clock-jump",
    "few-blocks",  "full-queue",  "poison",     "hopeless",    "drain",     "remove", "add"};

std::string Show(Duration duration) {
  const auto us = std::chrono::duration_cast<microseconds>(duration).count();
  if (us % 1'000'000 == 0) return fmt::format("{}s", us / 1'000'000);
  if (us % 1000 == 0) return fmt::format("{}ms", us / 1000);
  return fmt::format("{}us", us);
}

std::optional<std::uint64_t> Number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > 1'000'000'000'000) {
    return std::nullopt;
  }
  return value;
}

std::optional<Duration> Length(std::string_view text) {
  for (const auto& [suffix, unit] : {std::pair<std::string_view, Duration>{"us", microseconds(1)},
                                     {"ms", milliseconds(1)},
                                     {"s", seconds(1)}}) {
    if (!text.ends_with(suffix)) continue;
    const auto value = Number(text.substr(0, text.size() - suffix.size()));
    if (!value.has_value() || *value > 1'000'000'000) return std::nullopt;
    return unit * static_cast<std::int64_t>(*value);
  }
  return std::nullopt;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t at = std::min(text.find(separator), text.size());
    if (at > 0) parts.push_back(text.substr(0, at));
    text.remove_prefix(std::min(at + 1, text.size()));
  }
  return parts;
}

bool IsTarget(std::string_view text) {
  if (text == "router" || text == "prefill" || text == "decode") return true;
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos || !Number(text.substr(dash + 1)).has_value()) return false;
  const std::string_view role = text.substr(0, dash);
  return role == "prefill" || role == "decode" || role == "request";
}

StatusOr<Fault> ParseFault(std::string_view text) {
  const std::vector<std::string_view> words = Split(text, ' ');
  auto wrong = [&](std::string_view what) { return InvalidArgument("fault '{}': {}", text, what); };
  if (words.size() < 3) return wrong("wants KIND TARGET [OTHER] @WHEN [for LENGTH] [xCOUNT]");
  const auto kind = std::find(kNames.begin(), kNames.end(), words[0]);
  if (kind == kNames.end()) {
    return wrong(fmt::format("the kinds are {}", fmt::join(kNames, ", ")));
  }
  Fault fault;
  fault.kind = static_cast<FaultKind>(kind - kNames.begin());
  bool has_time = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word.starts_with("@e")) {
      const auto events = Number(word.substr(2));
      if (!events.has_value()) return wrong("a number of events follows @e");
      fault.after_events = *events;
      has_time = true;
    } else if (word.starts_with('@')) {
      const auto at = Length(word.substr(1));
      if (!at.has_value()) return wrong("@ is followed by a time with its unit: us, ms, s");
      fault.at = *at;
      has_time = true;
    } else if (word == "for" && i + 1 < words.size()) {
      const auto length = Length(words[++i]);
      if (!length.has_value()) return wrong("a length has a unit: us, ms, s");
      fault.length = *length;
    } else if (const auto count = word.starts_with('x') ? Number(word.substr(1)) : std::nullopt;
               count.has_value() && *count <= 1'000'000) {
      fault.count = static_cast<std::int32_t>(*count);
    } else if (IsTarget(word) && (fault.target.empty() || fault.other.empty())) {
      (fault.target.empty() ? fault.target : fault.other) = word;
    } else {
      return wrong(fmt::format("'{}' is not understood", word));
    }
  }
  if (!has_time) return wrong("has no @WHEN");
  if (fault.target.empty()) return wrong("has no target");
  const bool pair = fault.kind == FaultKind::kCut || fault.kind == FaultKind::kPartition ||
                    fault.kind == FaultKind::kSlowLink || fault.kind == FaultKind::kLag;
  if (pair != !fault.other.empty()) return wrong(pair ? "wants two targets" : "wants one target");
  return fault;
}

}  // namespace

std::string_view ToString(FaultKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::string ToString(const Fault& fault) {
  std::string out = fmt::format("{} {}", ToString(fault.kind), fault.target);
  if (!fault.other.empty()) out += fmt::format(" {}", fault.other);
  out += fault.after_events > 0 ? fmt::format(" @e{}", fault.after_events)
                                : fmt::format(" @{}", Show(fault.at));
  if (fault.length > Duration::zero()) out += fmt::format(" for {}", Show(fault.length));
  if (fault.count > 0) out += fmt::format(" x{}", fault.count);
  return out;
}

std::string ToString(const FaultPlan& plan) {
  std::string out;
  for (const Fault& fault : plan) {
    if (!out.empty()) out += "; ";
    out += ToString(fault);
  }
  return out;
}

StatusOr<FaultPlan> ParseFaultPlan(std::string_view text) {
  FaultPlan plan;
  for (const std::string_view part : Split(text, ';')) {
    if (part.find_first_not_of(' ') == std::string_view::npos) continue;
    TANDEM_ASSIGN_OR_RETURN(Fault fault, ParseFault(part));
    plan.push_back(std::move(fault));
  }
  return plan;
}

namespace {

// Draws one fault after another.
class Drawer {
 public:
  Drawer(SplitMix64& random, const FaultDraw& draw) : random_(random), draw_(draw) {}

  Fault Draw() {
    Fault fault;
    fault.kind = Kind();
    if (random_.Below(4) > 0) {
      fault.after_events = 1 + Below(60 * static_cast<std::uint64_t>(draw_.requests));
    } else {
      // While requests run; at times much later, when those that an earlier fault hit recover.
      const Duration most = draw_.arrivals + (Below(3) > 0 ? milliseconds(60) : seconds(3));
      fault.at = microseconds(Below(static_cast<std::uint64_t>(most / microseconds(1))));
    }
    Fill(fault);
    return fault;
  }

 private:
  std::uint64_t Below(std::uint64_t bound) { return random_.Below(bound); }
  // Often short, seldom long.
  Duration Between(Duration low, Duration high) {
    const double unit = random_.Unit();
    return low + std::chrono::duration_cast<microseconds>((high - low) * (unit * unit));
  }
  std::int32_t Count(std::uint64_t low, std::uint64_t high) {
    return static_cast<std::int32_t>(low + Below(high - low + 1));
  }
  std::string Prefill() {
    return fmt::format("prefill-{}", Below(static_cast<std::uint64_t>(draw_.prefill_nodes)));
  }
  std::string Decode() {
    return fmt::format("decode-{}", Below(static_cast<std::uint64_t>(draw_.decode_nodes)));
  }
  std::string Worker() { return Below(2) == 0 ? Prefill() : Decode(); }
  std::string AnyProcess() { return Below(8) == 0 ? "router" : Worker(); }
  std::string Request() {
    return fmt::format("request-{}", 1 + Below(static_cast<std::uint64_t>(draw_.requests)));
  }
  void Pair(Fault& fault) {
    switch (Below(3)) {
      case 0:
        fault.target = "router";
        fault.other = Prefill();
        break;
      case 1:
        fault.target = "router";
        fault.other = Decode();
        break;
      default:
        fault.target = Prefill();
        fault.other = Decode();
    }
  }

  // The ones that break most come most.
  FaultKind Kind() {
    const std::uint64_t roll = Below(100);
    if (roll < 20) return FaultKind::kCrash;
    if (roll < 36) return FaultKind::kStop;
    if (roll < 46) return FaultKind::kCut;
    if (roll < 56) return FaultKind::kPartition;
    constexpr std::array kRest = {
        FaultKind::kSlowLink,   FaultKind::kLag,        FaultKind::kHopeless,
        FaultKind::kSlowWorker, FaultKind::kSlowClient, FaultKind::kClientGone,
        FaultKind::kFailedPut,  FaultKind::kFailedStep, FaultKind::kCorrupt,
        FaultKind::kMute,       FaultKind::kClockJump,  FaultKind::kFewBlocks,
        FaultKind::kFullQueue,  FaultKind::kPoison,     FaultKind::kDrain,
        FaultKind::kDrain,      FaultKind::kRemove,     FaultKind::kAdd};
    return kRest[Below(kRest.size())];
  }

  void Fill(Fault& fault) {
    switch (fault.kind) {
      case FaultKind::kCrash:
        fault.target = AnyProcess();
        if (Below(6) > 0) {  // rarely never
          fault.length = Between(milliseconds(20), milliseconds(1200));
        }
        break;
      case FaultKind::kStop:
        fault.target = AnyProcess();
        fault.length = Between(milliseconds(1), seconds(5));
        break;
      case FaultKind::kCut:
        Pair(fault);
        if (Below(2) == 0) fault.length = Between(milliseconds(1), seconds(3));
        break;
      case FaultKind::kPartition:
        Pair(fault);
        fault.length = Between(milliseconds(1), seconds(5));
        break;
      case FaultKind::kSlowLink:
        Pair(fault);
        fault.length = Between(milliseconds(10), seconds(2));
        fault.count = Count(5, 200);
        break;
      case FaultKind::kLag:
        Pair(fault);
        if (Below(2) == 0) std::swap(fault.target, fault.other);
        fault.length = Between(milliseconds(10), seconds(2));
        fault.count = Count(2, 200);
        break;
      case FaultKind::kSlowWorker:
        fault.target = Worker();
        fault.length = Between(milliseconds(10), seconds(2));
        fault.count = Count(2, 100);
        break;
      case FaultKind::kSlowClient:
        fault.target = Request();
        fault.length = Between(milliseconds(10), seconds(4));
        break;
      case FaultKind::kClientGone:
        fault.target = Request();
        break;
      case FaultKind::kFailedPut:
        fault.target = Prefill();
        fault.count = Count(1, 2);
        break;
      case FaultKind::kFailedStep:
        fault.target = Worker();
        fault.count = Count(1, 2);
        break;
      case FaultKind::kCorrupt:
        fault.target = Prefill();
        fault.count = Count(1, 3);
        break;
      case FaultKind::kMute:
        fault.target = AnyProcess();
        fault.length = Between(milliseconds(300), milliseconds(3500));
        break;
      case FaultKind::kClockJump:
        fault.target = AnyProcess();
        fault.length = Between(milliseconds(100), seconds(8));
        break;
      case FaultKind::kFewBlocks:
        fault.target = Worker();
        fault.count = Count(14, 24);
        break;
      case FaultKind::kFullQueue:
        fault.target = AnyProcess();
        fault.count = Count(1, 3);
        break;
      case FaultKind::kPoison:
      case FaultKind::kHopeless:
        fault.target = Request();
        fault.count = Count(1, 3);
        break;
      case FaultKind::kDrain:
        fault.target = Worker();
        fault.length = Between(milliseconds(20), milliseconds(800));
        fault.count = Count(1, 3);
        break;
      case FaultKind::kRemove:
        fault.target = Worker();
        break;
      case FaultKind::kAdd:
        fault.target = Below(2) == 0 ? "prefill" : "decode";
        break;
    }
  }

  SplitMix64& random_;
  const FaultDraw& draw_;
};

}  // namespace

FaultPlan DrawFaultPlan(SplitMix64& random, const FaultDraw& draw) {
  Drawer drawer(random, draw);
  FaultPlan plan;
  const std::uint64_t count = 1 + random.Below(static_cast<std::uint64_t>(draw.faults_max));
  while (plan.size() < count) plan.push_back(drawer.Draw());
  return plan;
}

}  // namespace tandem::sim
