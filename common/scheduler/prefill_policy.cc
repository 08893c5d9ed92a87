#include "common/scheduler/prefill_policy.h"

#include <algorithm>

namespace tandem::scheduler {

void PlanChunks(TokenCount step_tokens, std::int32_t block_size,
                std::span<const PromptProgress> prompts, std::vector<TokenCount>& chunks) {
  std::int32_t budget = std::max(step_tokens.value(), block_size);
  for (const PromptProgress& prompt : prompts) {
    const std::int32_t left = prompt.total.value() - prompt.computed.value();
    std::int32_t chunk = std::min(left, budget);
    if (chunk < left) {  // not the last one: back to a block boundary
      const std::int32_t end = prompt.computed.value() + chunk;
      chunk = std::max(end - end % block_size - prompt.computed.value(), 0);
    }
    budget -= chunk;
    chunks.push_back(TokenCount(chunk));
  }
}

}  // namespace tandem::scheduler
