// What RouterCore asks its shell to do, in order.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/base/units.h"
#include "common/handoff/events.h"
#include "common/sequence/sampling_params.h"
#include "router/core/notes.h"

namespace tandem::router {

using handoff::Send;

// Positions first, first + 1, … of a request, for its client. Each position is delivered once, in
// order. The shell answers with ClientConsumed when the client took them.
struct Deliver {
  handoff::RequestId request;
  Position first;
  TokenIds tokens;
  std::vector<float> logprobs;  // as many as tokens
};

// Where a request's time, bytes and nodes went; of the attempt that delivered last, where a field
// is about one attempt.
struct Bill {
  std::uint32_t attempts = 0;
  std::uint32_t placements = 0;  // noted, over all attempts
  std::string prefill_node;      // names; empty: none yet
  std::string decode_node;
  Time arrived{};
  Time dispatched{};   // first Prefill sent; Time{} where none was
  Time first_token{};  // first position delivered; Time{} where none was
  Time last_token{};
  Duration pause_max{0};  // longest gap between two deliveries
  TokenCount delivered{0};
  handoff::PhaseTimes times;  // as the prefill node measured them
};

// The last action of a request; its id is unknown afterwards. `status` is OK exactly when `finish`
// is not kNone.
struct Finished {
  handoff::RequestId request;
  Status status;
  sequence::FinishReason finish = sequence::FinishReason::kNone;
  Bill bill;
};

// Pairs that work changed: for logs and /health.
struct Readiness {
  std::int32_t usable_pairs = 0;
};

using Action = std::variant<Send, Deliver, Finished, Readiness, Note>;
using Actions = std::vector<Action>;

}  // namespace tandem::router
