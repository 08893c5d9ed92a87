// Which prompt tokens the next step computes: first come, first served, prompts cut into chunks so
// that a step stays short.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/units.h"
#include "common/scheduler/step_time.h"

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

// Where prefill shares its cores with decoding, a step is computed in pieces, between which it may
// stop; decoding waits for a piece at most.
struct ChunkLimit {
  TokenCount most{512};  // of a step, whatever its pieces
  std::int32_t block_size = 16;
  std::int64_t pieces = 1;  // of a step, of about equal length
  Duration slice{0};        // what decoding leaves to prefill at a time; zero: everything
};

// Prompt tokens for the next step, which begins with a prompt of which `computed` are done: as many
// as let a piece end within half a slice by the fit (a slice is then met to a quarter), whole
// blocks, at least kFewestTokens; `most` without a slice or a fit.
inline constexpr TokenCount kFewestTokens{64};
TokenCount StepTokens(const ChunkLimit& limit, const StepTime& fit, TokenCount computed);

}  // namespace tandem::scheduler
