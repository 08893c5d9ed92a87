// Keeps the rule that slots which no token has written are zero.
#pragma once

#include <span>

#include "common/ops/paged_kv.h"
#include "common/ops/share.h"

namespace tandem::engine {

// A block that was used before holds old bytes. Where a slice writes a block's first slot but not
// its last, this clears the slots behind the slice, so that a block's bytes are a function of the
// tokens in it. Touches no slot that the slices
// write.
void ClearBlockTails(const ops::PagedKv& kv, std::span<const ops::KvSlice> slices, ops::Range some);

}  // namespace tandem::engine
