// What goes wrong in one history, when and to whom: drawn from a seed, printed, parsed back.
//
//   crash decode-0 @e120 for 300ms; partition prefill-0 decode-1 @1500ms for 3s; corrupt prefill-0
//   @e40 x2
//
// KIND TARGET [OTHER] @WHEN [for LENGTH] [xCOUNT], separated by ';'. WHEN counts from the start of
// the workload: "e120" is after 120 events, anything else a time (us, ms, s).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"
#include "common/base/status.h"
#include "common/base/time.h"

namespace tandem::sim {

enum class FaultKind : std::uint8_t {
  kCrash,       // killed; `length` later another life of that name; 0: never
  kStop,        // SIGSTOP for `length`, also in the middle of a write
  kCut,         // the pair's connections are reset; what was in flight is lost both ways; new ones
                // are refused for `length`
  kPartition,   // nothing passes between the pair for `length`
  kSlowLink,    // the pair's latency and transfer time times `count`, for `length`
  kLag,         // messages from the first to the second, not back, take `count` times as long
  kSlowWorker,  // its steps take `count` times as long, for `length`
  kSlowClient,  // a request's client reads nothing for `length`
  kClientGone,  // a request's client leaves
  kFailedPut,   // the node's next `count` pushes fail
  kFailedStep,  // the node's next `count` steps fail
  kCorrupt,     // the node's next `count` pushes arrive with a wrong value
  kMute,        // the node sends no heartbeat for `length`
  kClockJump,   // the node's clock jumps forward by `length`
  kFewBlocks,   // the node has only `count` blocks (from its start)
  kFullQueue,   // the node takes only `count` requests at a time (from its start)
  kPoison,      // a request kills the workers that compute it: 1 prefill, 2 decode, 3 both
  kHopeless,    // nothing can be sampled for a request, so that its every attempt fails: as above
  kDrain,       // the node is drained, exits and is back `length` later; 1: by SIGTERM, 2: by the
                // router, 3: by SIGTERM in a hurry
  kRemove,      // the node exits at once in good order, and never comes back
  kAdd,         // a node of a new name joins (target: its role)
};
inline constexpr std::size_t kFaultKinds = 21;
std::string_view ToString(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kCrash;
  std::string target;  // "router", "prefill-0", "decode-1", "request-3" (the third one submitted)
  std::string other;   // of a pair
  std::uint64_t after_events = 0;  // 0: `at` counts
  Duration at{0};
  Duration length{0};
  std::int32_t count = 0;
  bool operator==(const Fault&) const = default;
};

using FaultPlan = std::vector<Fault>;

std::string ToString(const Fault& fault);
std::string ToString(const FaultPlan& plan);
// Errors: InvalidArgument naming the fault and what is wrong with it.
StatusOr<FaultPlan> ParseFaultPlan(std::string_view text);

struct FaultDraw {
  std::int32_t faults_max = 3;
  std::int32_t prefill_nodes = 2;
  std::int32_t decode_nodes = 2;
  std::int32_t requests = 6;
  Duration arrivals = std::chrono::milliseconds(40);
};
// One to `faults_max` faults of any kind.
FaultPlan DrawFaultPlan(SplitMix64& random, const FaultDraw& draw);

}  // namespace tandem::sim
