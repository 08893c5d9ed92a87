#include "deploy/sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"

namespace tandem::sim {
namespace {

using handoff::Incarnation;
using handoff::Role;

constexpr Duration kWarmUp = std::chrono::milliseconds(600);  // first probes and heartbeats
constexpr Duration kTooLong = std::chrono::minutes(10);       // of virtual time: a hang
constexpr Duration kSettleStep = std::chrono::milliseconds(100);
constexpr Duration kSettleMost = std::chrono::seconds(4);  // after the last end and fault
constexpr Duration kSupervisorRestarts = std::chrono::milliseconds(300);

Hash128 ModelOf() {
  Hash128 model;
  model.bytes[0] = 42;
  return model;
}

kv::KvLayout LayoutOf(const SimOptions& options) {
  kv::KvLayout layout;
  layout.num_layers = options.num_layers;
  layout.num_kv_heads = 1;
  layout.head_dim = 64;
  layout.block_size = options.block_size;
  return layout;
}

}  // namespace

Cluster::Cluster(const SimOptions& options)
    : options_(options),
      world_(options.seed, options.trace_lines),
      network_(world_, options.link),
      model_(ModelOf()),
      layout_(LayoutOf(options)),
      workload_(world_, options_, model_,
                {.excuse = [this](const Workload::Client& client,
                                  const Status& status) { return Excuses(client, status); },
                 .calm_since = [this] { return CalmSince(); },
                 .ill_within = [this](Time from, Time to) { return IllWithin(from, to); }}) {
  AddSlot(Role::kRouter, 0);
  for (std::int32_t i = 0; i < options.decode_nodes; ++i) AddSlot(Role::kDecode, i);
  for (std::int32_t i = 0; i < options.prefill_nodes; ++i) AddSlot(Role::kPrefill, i);
  for (auto& slot : slots_) StartLife(*slot);
}

// --- processes

Cluster::Slot& Cluster::AddSlot(Role role, std::int32_t index) {
  auto slot = std::make_unique<Slot>();
  slot->role = role;
  slot->name = role == Role::kRouter    ? std::string("router")
               : role == Role::kPrefill ? fmt::format("prefill-{}", index)
                                        : fmt::format("decode-{}", index);
  slot->restart_after = kSupervisorRestarts;
  return *slots_.emplace_back(std::move(slot));
}

Cluster::Slot* Cluster::FindSlot(const std::string& name) {
  for (auto& slot : slots_) {
    if (slot->name == name) return slot.get();
  }
  return nullptr;
}

void Cluster::StartLife(Slot& slot) {
  const Incarnation incarnation(next_incarnation_++);
  std::unique_ptr<Process> life;
  if (slot.role == Role::kRouter) {
    router::RouterConfig config;
    config.incarnation = incarnation;
    config.requests_max = LimitOf(FaultKind::kFullQueue, slot.name, config.requests_max);
    life = std::make_unique<RouterProcess>(world_, network_, config, workload_);
  } else if (slot.role == Role::kDecode) {
    decode_node::DecodeConfig config;
    config.name = slot.name;
    config.incarnation = incarnation;
    config.model_instance = model_;
    config.numerics = "sim";
    config.layout = layout_;
    const std::int32_t blocks = LimitOf(FaultKind::kFewBlocks, slot.name, options_.decode_blocks);
    config.num_blocks = kv::BlockCount(blocks);
    config.max_context = TokenCount(blocks * options_.block_size);
    config.step_sequences = 8;
    config.reservations_max = LimitOf(FaultKind::kFullQueue, slot.name, config.reservations_max);
    life =
        std::make_unique<DecodeProcess>(world_, network_, config, options_.proof, DecodeTiming{});
  } else {
    prefill_node::PrefillConfig config;
    config.name = slot.name;
    config.incarnation = incarnation;
    config.model_instance = model_;
    config.layout = layout_;
    const std::int32_t blocks = LimitOf(FaultKind::kFewBlocks, slot.name, options_.prefill_blocks);
    config.num_blocks = kv::BlockCount(blocks);
    config.max_context = TokenCount(blocks * options_.block_size);
    config.step_tokens = TokenCount(options_.step_tokens);
    config.step_sequences = 4;
    config.outstanding_max = ByteCount(3 * layout_.block_bytes().value());
    config.tasks_max = LimitOf(FaultKind::kFullQueue, slot.name, config.tasks_max);
    life = std::make_unique<PrefillProcess>(world_, network_, config, PrefillTiming{});
  }
  slot.current = life.get();
  slot.draining = false;
  slot.restart_after = kSupervisorRestarts;
  life->SetEnded([this, &slot](bool killed) { Ended(slot, killed); });
  lives_.push_back(std::move(life));
  slot.current->Start();
  if (slot.role == Role::kRouter) {
    SetRouterNodes();
    workload_.SetRouter(static_cast<RouterProcess*>(slot.current));
  }
  Disturbed();
}

// A process has ended: what its clients see, and its next life.
void Cluster::Ended(Slot& slot, bool killed) {
  slot.current = nullptr;
  const bool for_good = slot.removed || slot.restart_after == Duration::zero();
  if (slot.role == Role::kRouter) {
    workload_.RouterGone(for_good);
  } else if (killed) {
    deaths_.push_back(world_.loop.now());
  }
  Disturbed();
  if (for_good) return;
  FireFor(slot.restart_after, [this, &slot] { StartLife(slot); });
}

void Cluster::SetRouterNodes() {
  Process* router = slots_[0]->current;
  if (router == nullptr) return;
  std::vector<std::string> names;
  for (const auto& slot : slots_) {
    if (slot->role != Role::kRouter && !slot->removed) names.push_back(slot->name);
  }
  world_.loop.Execute(*router, [router, names = std::move(names)] {
    static_cast<RouterProcess*>(router)->SetNodes(names);
  });
}

// --- the run

SimReport Cluster::Run() {
  // The router may not see each death as one: of a node that is silent, or drains.
  world_.poison_kills_max = CountIn(FaultKind::kPoison) * (handoff::kDeathsMax + 3);
  world_.loop.After(kWarmUp, [this] {
    workload_starts_ = world_.loop.count();
    workload_.Start();
    ScheduleFaults();
  });
  if (RunUntilFinished()) Settle();
  return Report();
}

void Cluster::CheckTouched() {
  const EventOwner* touched = world_.loop.touched();
  if (touched == nullptr || touched->dead) return;
  static_cast<Process*>(const_cast<EventOwner*>(touched))->CheckAfterEvent();
}

bool Cluster::RunUntilFinished() {
  const Time end = world_.loop.now() + kTooLong;
  while (world_.violation.empty() && !workload_.finished()) {
    if (!world_.loop.Step(end)) {
      world_.Violate(workload_.Unfinished());
      break;
    }
    CheckTouched();
    FireByEvents();
  }
  return world_.violation.empty();
}

// What the ends left on the wire comes in, faults end, leases run out; then nothing may be left.
void Cluster::Settle() {
  const Time ended = world_.loop.now();
  std::string left;
  do {
    const Time until = world_.loop.now() + kSettleStep;
    while (world_.violation.empty() && world_.loop.Step(until)) CheckTouched();
    world_.loop.AdvanceTo(until);
    left = under_way_ > 0 ? "faults under way" : LeftInBooks();
    const Time calm = under_way_ > 0 ? world_.loop.now() : disturbed_at_;
    settled_after_ = world_.loop.now() - std::max(ended, calm);
  } while (world_.violation.empty() && !left.empty() && settled_after_ < kSettleMost);
  if (!left.empty()) world_.Violate("left at the end: " + left);
}

std::string Cluster::LeftInBooks() const {
  for (const auto& slot : slots_) {
    if (slot->current == nullptr) continue;
    if (std::string left = slot->current->LeftInBooks(); !left.empty()) return left;
  }
  return "";
}

// --- the report

void Cluster::AddWorker(Process& life, SimReport& report) const {
  if (auto* prefill = dynamic_cast<PrefillProcess*>(&life)) {
    const prefill_node::PrefillStats s = prefill->core().stats();
    report.prefill_nodes_used += s.computed_tokens > 0 ? 1 : 0;
    report.prefill.AddCounters(s);
  }
  if (auto* decode = dynamic_cast<DecodeProcess*>(&life)) {
    const decode_node::DecodeStats s = decode->core().stats();
    report.decode_nodes_used += s.joined > 0 ? 1 : 0;
    report.decode.AddCounters(s);
  }
}

SimReport Cluster::Report() {
  SimReport report;
  report.violation = world_.violation;
  report.trace = world_.TakeTrace();
  report.events = world_.loop.count();
  report.virtual_time = world_.loop.now() - Time{};
  report.faults = fired_;
  report.done = workload_.done();
  report.cancelled = workload_.cancelled();
  report.failed = workload_.failed();
  report.cut = workload_.cut();
  report.pauses = workload_.Pauses();
  report.calm_wait_max = workload_.calm_wait_max();
  report.settled_after = settled_after_;
  for (auto& life : lives_) {
    if (auto* router = dynamic_cast<RouterProcess*>(life.get())) {
      report.router = router->core().stats();
    } else {
      AddWorker(*life, report);
    }
  }
  return report;
}

}  // namespace tandem::sim
