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

TokenCount StepTokens(const ChunkLimit& limit, const StepTime& fit, TokenCount computed) {
  if (limit.slice == Duration(0) || fit.Seconds(1, 1) <= 0) return limit.most;
  const double room = ToSeconds(limit.slice) / 2 * static_cast<double>(limit.pieces);
  const auto fits = [&](std::int32_t blocks) {
    const std::int64_t tokens = std::int64_t{blocks} * limit.block_size;
    return fit.Seconds(static_cast<double>(tokens), ChunkPairs(computed.value(), tokens)) <= room;
  };
  std::int32_t low = kFewestTokens.value() / limit.block_size;
  std::int32_t high = limit.most.value() / limit.block_size;
  while (low < high) {  // the most blocks that fit are in [low, high]
    const std::int32_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const TokenCount chosen(std::max(low, 1) * limit.block_size);
  return chosen >= TokenCount(limit.most.value() / limit.block_size * limit.block_size) ? limit.most
                                                                                        : chosen;
}

}  // namespace tandem::scheduler
