// Where answers come from, as the API sees it: tokens in, tokens out, no HTTP and no nodes.
// RouterService is the real one. All calls and callbacks on one strand.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/base/units.h"
#include "common/handoff/ids.h"
#include "common/handoff/messages.h"
#include "common/sequence/sampling_params.h"
#include "router/core/actions.h"

namespace tandem::router {

struct Generation {
  handoff::TokenList tokens;  // the prompt; not empty
  sequence::SamplingParams params;
  Deadline deadline;
};

// Receives one answer. Never called inside Submit().
class GenerationSink {
 public:
  virtual ~GenerationSink() = default;
  // Positions first, first + 1, …; each once, in order.
  virtual void OnTokens(Position first, std::span<const TokenId> tokens) = 0;
  // Last. `status` is OK exactly when `finish` is not kNone.
  virtual void OnFinished(const Status& status, sequence::FinishReason finish,
                          const Bill& bill) = 0;
};

class GenerationBackend {
 public:
  virtual ~GenerationBackend() = default;

  // Keeps `sink` until OnFinished. Errors: InvalidArgument, ResourceExhausted (too much waits),
  // Cancelled (stopping).
  virtual StatusOr<handoff::RequestId> Submit(Generation generation,
                                              std::shared_ptr<GenerationSink> sink) = 0;
  // → OnFinished(Cancelled). Unknown ids are ignored by these.
  virtual void ClientGone(handoff::RequestId request) = 0;
  // A stop string is complete with `position`. → OnFinished(kStop)
  virtual void StopMatched(handoff::RequestId request, Position position) = 0;

  // The client's socket took the text of so many positions more: the node may send as many.
  virtual void Consumed(handoff::RequestId request, std::int32_t positions) = 0;

  // Whether Submit() would take another request now. Errors: as there.
  virtual Status Admission() const = 0;
  // For a refused request: after how long to come again.
  virtual Duration RetryAfter() const = 0;
  // A pair of nodes is usable.
  virtual bool ready() const = 0;
  // Prompt and generated tokens together, of the largest request that the nodes take now.
  virtual TokenCount context() const = 0;
  // For GET /health: a JSON object. For GET /metrics: Prometheus text.
  virtual std::string HealthJson() const = 0;
  virtual std::string MetricsText() const = 0;
};

}  // namespace tandem::router
