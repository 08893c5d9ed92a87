// How a sequence's tokens are chosen and when it ends. With its tokens this is the whole state of a
// sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/base/units.h"

namespace tandem::sequence {

struct SamplingParams {
  float temperature = 1.0f;  // below 1e-5: greedy
  std::int32_t top_k = 0;    // 0: off
  float top_p = 1.0f;
  float min_p = 0.0f;
  std::uint64_t seed = 0;    // the router draws one where the request has none
  TokenCount max_tokens{0};  // generated tokens, from the client's prompt
  std::vector<TokenId>
      stop_token_ids;  // ascending; end-of-generation ids of the model among them unless
                       // the request ignores them. The stopping token is part of the output.
  bool operator==(const SamplingParams&) const = default;
  // Errors: InvalidArgument naming the field, its value and its range.
  Status Validate() const;
  bool greedy() const { return temperature < 1e-5f; }
  bool Stops(TokenId token) const;
};

enum class FinishReason : std::uint8_t { kNone = 0, kStop = 1, kLength = 2 };

}  // namespace tandem::sequence
