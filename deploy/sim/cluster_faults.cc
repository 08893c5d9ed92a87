// Cluster: what goes wrong, when its time has come.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "deploy/sim/cluster.h"

namespace tandem::sim {
namespace {

using handoff::Role;

constexpr Duration kDrainBudget = std::chrono::seconds(5);
constexpr Duration kHurriedDrain = std::chrono::milliseconds(10);

std::int32_t IndexOf(const std::string& target) {
  const std::size_t dash = target.find('-');
  std::int32_t index = 0;
  std::from_chars(target.data() + dash + 1, target.data() + target.size(), index);
  return index;
}

}  // namespace

std::int32_t Cluster::LimitOf(FaultKind kind, const std::string& name,
                              std::int32_t otherwise) const {
  for (const Fault& fault : options_.faults) {
    if (fault.kind == kind && fault.target == name) return std::max(fault.count, 1);
  }
  return otherwise;
}

std::int32_t Cluster::CountIn(FaultKind kind) const {
  std::int32_t count = 0;
  for (const Fault& fault : options_.faults) {
    if (fault.kind == kind) count += std::max(fault.count, 1);
  }
  return count;
}

void Cluster::ScheduleFaults() {
  for (const Fault& fault : options_.faults) {
    switch (fault.kind) {
      case FaultKind::kFewBlocks:  // from the start
      case FaultKind::kFullQueue:
      case FaultKind::kPoison:
      case FaultKind::kHopeless:
        ++fired_[static_cast<std::size_t>(fault.kind)];
        break;
      default:
        if (fault.after_events > 0) {
          by_events_.push_back(fault);
        } else {
          world_.loop.After(fault.at, [this, fault] {
            if (!workload_.finished()) Fire(fault);
          });
        }
    }
  }
  std::stable_sort(by_events_.begin(), by_events_.end(),
                   [](const Fault& a, const Fault& b) { return a.after_events > b.after_events; });
}

void Cluster::FireByEvents() {
  while (!by_events_.empty() &&
         world_.loop.count() - workload_starts_ >= by_events_.back().after_events) {
    const Fault fault = std::move(by_events_.back());
    by_events_.pop_back();
    Fire(fault);
  }
}

// `end` runs after `length`; the history does not end before.
void Cluster::FireFor(Duration length, std::function<void()> end) {
  ++under_way_;
  world_.loop.After(length, [this, end = std::move(end)] {
    --under_way_;
    end();
    Disturbed();
  });
}

void Cluster::Fire(const Fault& fault) {
  world_.Trace([&] { return fmt::format("fault: {}", ToString(fault)); });
  workload_.FaultBegins();
  bool happened = false;
  if (fault.kind == FaultKind::kAdd) {
    const Role role = fault.target == "prefill" ? Role::kPrefill : Role::kDecode;
    const auto index = std::count_if(slots_.begin(), slots_.end(),
                                     [&](const auto& slot) { return slot->role == role; });
    StartLife(AddSlot(role, static_cast<std::int32_t>(index)));
    SetRouterNodes();
    happened = true;
  } else if (!fault.other.empty()) {
    happened = FireOnPair(fault);
  } else if (Slot* slot = FindSlot(fault.target)) {
    happened = slot->current != nullptr && FireOnProcess(fault, *slot);
  } else if (fault.target.starts_with("request-")) {
    happened = FireOnClient(fault);
  }
  if (happened) ++fired_[static_cast<std::size_t>(fault.kind)];
  Disturbed();
}

bool Cluster::FireOnPair(const Fault& fault) {
  const Slot* a = FindSlot(fault.target);
  const Slot* b = FindSlot(fault.other);
  if (a == nullptr || b == nullptr) return false;
  const std::int32_t from = network_.HostOf(a->name), to = network_.HostOf(b->name);
  switch (fault.kind) {
    case FaultKind::kCut:
      network_.Cut(from, to);
      if (fault.length == Duration::zero()) return true;
      network_.Refuse(from, to);
      FireFor(fault.length, [this, from, to] { network_.StopRefusing(from, to); });
      return true;
    case FaultKind::kPartition:
      network_.Block(from, to);
      FireFor(fault.length, [this, from, to] { network_.Unblock(from, to); });
      return true;
    case FaultKind::kSlowLink:
      network_.SetSlowness(from, to, std::max(fault.count, 1));
      FireFor(fault.length, [this, from, to] { network_.SetSlowness(from, to, 1); });
      return true;
    case FaultKind::kLag:
      network_.SetLag(from, to, std::max(fault.count, 1));
      FireFor(fault.length, [this, from, to] { network_.SetLag(from, to, 1); });
      return true;
    default:
      return false;
  }
}

bool Cluster::FireOnClient(const Fault& fault) {
  const std::int32_t index = IndexOf(fault.target);
  if (index < 1 || index > options_.requests) return false;
  if (fault.kind == FaultKind::kClientGone) return workload_.Leave(index);
  if (fault.kind != FaultKind::kSlowClient) return false;
  return workload_.Pause(index, world_.loop.now() + fault.length);
}

bool Cluster::FireOnProcess(const Fault& fault, Slot& slot) {
  Process& process = *slot.current;
  const Time until = world_.loop.now() + fault.length;
  switch (fault.kind) {
    case FaultKind::kCrash:
      slot.restart_after = fault.length;
      process.Kill();
      return true;
    case FaultKind::kStop:
      if (process.stopped) return false;
      process.Stop();
      FireFor(fault.length, [&process] { process.Continue(); });
      return true;
    case FaultKind::kSlowWorker:
      process.SlowDown(std::max(fault.count, 1), until);
      FireFor(fault.length, [] {});
      return true;
    case FaultKind::kMute:
      process.MuteUntil(until);
      FireFor(fault.length, [] {});
      return true;
    case FaultKind::kFailedStep:
      process.FailSteps(fault.count);
      return slot.role != Role::kRouter;
    case FaultKind::kClockJump:
      process.JumpClock(fault.length);
      return true;
    case FaultKind::kFailedPut:
    case FaultKind::kCorrupt:
      if (auto* prefill = dynamic_cast<PrefillProcess*>(&process)) {
        fault.kind == FaultKind::kCorrupt ? prefill->CorruptPuts(fault.count)
                                          : prefill->FailPuts(fault.count);
        return true;
      }
      return false;
    case FaultKind::kDrain:
      if (slot.role == Role::kRouter) return false;
      slot.draining = true;
      slot.restart_after = fault.length;
      if (fault.count == 2 && slots_[0]->current != nullptr &&
          static_cast<RouterProcess*>(slots_[0]->current)->Drain(slot.name)) {
        return true;
      }
      world_.loop.Execute(process, [&process, hurried = fault.count == 3] {
        process.BeginDrain(hurried ? kHurriedDrain : kDrainBudget);
      });
      return true;
    case FaultKind::kRemove:
      if (slot.role == Role::kRouter) return false;
      slot.removed = true;
      SetRouterNodes();
      process.Exit();
      return true;
    default:
      return false;
  }
}

}  // namespace tandem::sim
