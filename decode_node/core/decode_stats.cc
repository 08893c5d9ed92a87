#include "decode_node/core/decode_stats.h"

namespace tandem::decode_node {
namespace {

constexpr DecodeStats::Counter kCounters[] = {
    {"reservations", &DecodeStats::reservations},
    {"refused_full", &DecodeStats::refused_full},
    {"refused_other", &DecodeStats::refused_other},
    {"joined", &DecodeStats::joined},
    {"rejected", &DecodeStats::rejected},
    {"corrupt", &DecodeStats::corrupt},
    {"leases_expired", &DecodeStats::leases_expired},
    {"quarantines", &DecodeStats::quarantines},
    {"revokes", &DecodeStats::revokes},
    {"preempted", &DecodeStats::preempted},
    {"cancelled", &DecodeStats::cancelled},
    {"finished", &DecodeStats::finished},
    {"tokens", &DecodeStats::tokens},
    {"held_blocks", &DecodeStats::held_blocks},
    {"stale_messages", &DecodeStats::stale_messages},
};

}  // namespace

std::span<const DecodeStats::Counter> DecodeStats::Counters() { return kCounters; }

void DecodeStats::AddCounters(const DecodeStats& other) {
  for (const Counter& counter : kCounters) this->*counter.value += other.*counter.value;
}

}  // namespace tandem::decode_node
