// Which nodes take a request: by what each would have to compute and how long its queue is, by free
// blocks and load. Equal nodes take turns, so two of each share the work.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/units.h"
#include "common/kv/ids.h"
#include "common/scheduler/step_time.h"

namespace tandem::scheduler {

struct PrefillLoad {
  TokenCount queued_tokens{0};    // not yet computed, of all its requests
  TokenCount cached_tokens{0};    // of this prompt, in its prefix cache
  StepTime fit;                   // zero: unknown
  std::uint64_t last_chosen = 0;  // grows with every choice; 0: never
};

// Index of the node that would finish the prompt first. Requires: not empty.
std::size_t ChoosePrefill(TokenCount prompt, std::span<const PrefillLoad> nodes);

struct DecodeLoad {
  kv::BlockCount free_blocks{0};
  std::int32_t sequences = 0;     // running or on their way
  kv::BlockCount held_blocks{0};  // of this prompt, in its prefix cache
  StepTime fit;
  std::uint64_t last_chosen = 0;
};

// Indices, best first: those with room for `need` blocks before the others, then by load, less what
// a held prefix saves.
std::vector<std::size_t> RankDecode(kv::BlockCount need, std::span<const DecodeLoad> nodes);

}  // namespace tandem::scheduler
