// Which sequences the next decode step runs, which wait, and which give their blocks back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/kv/ids.h"

namespace tandem::scheduler {

struct DecodeCandidate {
  bool has_credit = true;        // may produce a token now
  bool needs_block = false;      // its next token does not fit in its blocks
  kv::BlockCount gives_back{0};  // blocks that preempting it would make available
};

enum class DecodeChoice : std::uint8_t {
  kRun,
  kWait,     // no credit, no place in the step, or no block now
  kPreempt,  // its blocks are needed by an older one
};

// One choice per candidate, appended to `choices`. `candidates` are in the order they joined,
// oldest first. A sequence that needs a block takes one of `available`; when there is none the
// youngest sequence is preempted, so that the oldest always advances. A sequence is preempted for
// its own sake only when older ones are left; one that is alone waits. At most `most` run, in turn:
// those from index `turn` on come first.
void PlanDecode(std::span<const DecodeCandidate> candidates, kv::BlockCount available,
                std::int32_t most, std::size_t turn, std::vector<DecodeChoice>& choices);

}  // namespace tandem::scheduler
