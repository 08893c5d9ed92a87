// Cluster: what the faults excuse. A request may end with an error only if there was no pair of
// nodes that could have served it, or if an injected cause explains that error.
#include <algorithm>

#include "deploy/sim/cluster.h"
#include "deploy/sim/token_model.h"

namespace tandem::sim {
namespace {

using handoff::Role;

// With a pair that works for as long, every request ends well: a loss is noticed, dialed again,
// probed and served in less.
constexpr Duration kEnoughHealth = std::chrono::seconds(9);

// A death is noticed within this time.
constexpr Duration kNoticed = std::chrono::seconds(3);

}  // namespace

bool Cluster::PairIsHealthy(const Slot& prefill, const Slot& decode) {
  const Slot& router = *slots_[0];
  for (const Slot* slot : {&router, &prefill, &decode}) {
    const Process* process = slot->current;
    if (process == nullptr || slot->draining || process->stopped || process->muted() ||
        process->slow()) {
      return false;
    }
  }
  const std::int32_t r = router.current->host(), p = prefill.current->host(),
                     d = decode.current->host();
  for (const auto& [a, b] : {std::pair(r, p), std::pair(r, d), std::pair(p, d)}) {
    if (network_.Blocked(a, b) || network_.Slow(a, b) || network_.Refuses(a, b)) return false;
  }
  return true;
}

void Cluster::UpdateHealth() {
  bool healthy = false;
  for (const auto& prefill : slots_) {
    if (prefill->role != Role::kPrefill) continue;
    for (const auto& decode : slots_) {
      healthy = healthy || (decode->role == Role::kDecode && PairIsHealthy(*prefill, *decode));
    }
  }
  if (healthy == healthy_) return;
  healthy_ = healthy;
  if (healthy) {
    healthy_since_ = world_.loop.now();
  } else {
    health_.emplace_back(healthy_since_, world_.loop.now());
  }
}

void Cluster::Disturbed() {
  disturbed_at_ = world_.loop.now();
  UpdateHealth();
}

// Since when a pair works and nothing goes wrong; kNever: one of the two is not so.
Time Cluster::CalmSince() const {
  if (!healthy_ || under_way_ > 0) return kNever;
  for (const auto& slot : slots_) {
    if (slot->current != nullptr && slot->draining) return kNever;
  }
  return std::max(healthy_since_, disturbed_at_);
}

// Of (from, to), how long no pair worked.
Duration Cluster::IllWithin(Time from, Time to) const {
  Duration well{0};
  auto add = [&](Time begin, Time end) {
    well += std::max(std::min(end, to) - std::max(begin, from), Duration(0));
  };
  for (const auto& [begin, end] : health_) add(begin, end);
  if (healthy_) add(healthy_since_, to);
  return to - from - well;
}

Duration Cluster::LongestHealth(Time since) {
  Duration longest{0};
  for (const auto& [from, to] : health_) longest = std::max(longest, to - std::max(from, since));
  if (healthy_) longest = std::max(longest, world_.loop.now() - std::max(healthy_since_, since));
  return longest;
}

// A cut looks like a death, and stays one where something keeps the node from coming back at once.
std::int32_t Cluster::DeathsSince(Time time) const {
  const auto deaths =
      std::count_if(deaths_.begin(), deaths_.end(), [&](Time at) { return at + kNoticed >= time; });
  std::int32_t disturbed = 0;
  for (FaultKind kind : {FaultKind::kStop, FaultKind::kCut, FaultKind::kPartition, FaultKind::kMute,
                         FaultKind::kClockJump, FaultKind::kDrain, FaultKind::kRemove}) {
    disturbed += fired_[static_cast<std::size_t>(kind)];
  }
  for (const Fault& fault : options_.faults) {
    if (fault.kind == FaultKind::kCut && fault.length > Duration::zero()) ++disturbed;
  }
  return static_cast<std::int32_t>(deaths) + std::max(disturbed - 1, 0);
}

bool Cluster::Excuses(const Workload::Client& client, const Status& status) {
  if (options_.strict) return false;
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return client.short_deadline || LongestHealth(client.arrives) < kEnoughHealth;
    case absl::StatusCode::kResourceExhausted:  // 429, or no node is large enough
      return client.short_deadline ||           // it would have passed in the queue
             CountIn(FaultKind::kFullQueue) + CountIn(FaultKind::kFewBlocks) > 0;
    case absl::StatusCode::kInternal: {  // its workers died under it
      const std::int32_t deaths = DeathsSince(client.arrives);
      const std::uint64_t seed = client.spec.params.seed;
      const bool poison = Poisons(seed, Role::kPrefill) || Poisons(seed, Role::kDecode);
      // Who was beside the one poison request does not go on dying with it.
      const bool beside = !poison && CountIn(FaultKind::kPoison) == 1;
      const std::int32_t alone = beside ? deaths - world_.poison_kills() : deaths;
      return deaths >= handoff::kDeathsMax && alone >= handoff::kDeathsMax - handoff::kDeathsShared;
    }
    case absl::StatusCode::kUnavailable:  // attempts without progress
      if (IsMarked(client.spec.params.seed, kHopelessSeed)) return true;
      return CountIn(FaultKind::kCorrupt) + CountIn(FaultKind::kFailedStep) +
                 2 * CountIn(FaultKind::kClockJump) >=
             handoff::kFruitlessAttemptsMax;
    default:
      return false;
  }
}

}  // namespace tandem::sim
