#include "common/sequence/sampling_params.h"

#include <algorithm>
#include <cmath>

namespace tandem::sequence {

Status SamplingParams::Validate() const {
  // Negated comparisons, so that NaN fails too.
  if (!(temperature >= 0 && temperature <= 2)) {
    return InvalidArgument("temperature is {}, must be 0..2", temperature);
  }
  if (top_k < 0) return InvalidArgument("top_k is {}, must be 0 (off) or more", top_k);
  if (!(top_p > 0 && top_p <= 1))
    return InvalidArgument("top_p is {}, must be above 0, up to 1", top_p);
  if (!(min_p >= 0 && min_p <= 1)) return InvalidArgument("min_p is {}, must be 0..1", min_p);
  if (max_tokens < TokenCount(1)) {
    return InvalidArgument("max_tokens is {}, must be 1 or more", max_tokens);
  }
  if (!std::is_sorted(stop_token_ids.begin(), stop_token_ids.end())) {
    return InvalidArgument("stop_token_ids must be ascending");
  }
  return OkStatus();
}

bool SamplingParams::Stops(TokenId token) const {
  return std::binary_search(stop_token_ids.begin(), stop_token_ids.end(), token);
}

}  // namespace tandem::sequence
