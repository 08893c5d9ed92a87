#include "prefill_node/core/prefill_stats.h"

namespace tandem::prefill_node {
namespace {

constexpr PrefillStats::Counter kCounters[] = {
    {"accepted", &PrefillStats::accepted},
    {"refused", &PrefillStats::refused},
    {"joined", &PrefillStats::joined},
    {"failed", &PrefillStats::failed},
    {"cancelled", &PrefillStats::cancelled},
    {"placed_again", &PrefillStats::placed_again},
    {"leases_expired", &PrefillStats::leases_expired},
    {"computed_tokens", &PrefillStats::computed_tokens},
    {"cached_tokens", &PrefillStats::cached_tokens},
    {"pushed_bytes", &PrefillStats::pushed_bytes},
    {"held_blocks", &PrefillStats::held_blocks},
    {"stale_messages", &PrefillStats::stale_messages},
};

}  // namespace

std::span<const PrefillStats::Counter> PrefillStats::Counters() { return kCounters; }

void PrefillStats::AddCounters(const PrefillStats& other) {
  for (const Counter& counter : kCounters) this->*counter.value += other.*counter.value;
}

}  // namespace tandem::prefill_node
