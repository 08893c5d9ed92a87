// Which prompt tokens the next step computes: first come, first served, prompts cut into chunks so
// that a step stays short.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/units.h"

namespace tandem::scheduler {

struct PromptProgress {
  TokenCount computed;  // whole blocks, unless equal to `total`
  TokenCount total;
};

// Chunk sizes for `prompts` in their order, appended to `chunks` (as many; zero: not in this step).
// Together at most `step_tokens`, but the first unfinished prompt always advances by a block at
// least. Every chunk but a prompt's last ends on a block boundary.
void PlanChunks(TokenCount step_tokens, std::int32_t block_size,
                std::span<const PromptProgress> prompts, std::vector<TokenCount>& chunks);

}  // namespace tandem::scheduler
