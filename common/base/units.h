// Units and ids that several modules share. Raw integers do not cross an interface.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/strong_int.h"

namespace tandem {

struct ByteCountTag {};
struct TokenCountTag {};
struct TokenIdTag {};
struct TokenIndexTag {};
struct PositionTag {};

using ByteCount = StrongInt<ByteCountTag, std::int64_t>;
using TokenCount = StrongInt<TokenCountTag, std::int32_t>;
// An entry of the vocabulary. Token lists on hot paths are plain arrays of these (4 bytes each).
using TokenId = StrongInt<TokenIdTag, std::int32_t>;
// Index of a token from the prompt's start (first = 0).
using TokenIndex = StrongInt<TokenIndexTag, std::int32_t>;
// Counts generated tokens from the client's prompt (first = 0), never from an attempt's prompt.
using Position = StrongInt<PositionTag, std::int32_t>;

using TokenIds = std::vector<TokenId>;

}  // namespace tandem
