// What an operator may see and do: the cluster's nodes. RouterService is the real one. All calls on
// its strand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"

namespace tandem::router {

// One configured address and the node that was last heard there.
struct NodeStatus {
  std::string name;  // empty: never connected
  std::string role;  // "prefill", "decode"
  std::string address;
  std::uint64_t incarnation = 0;
  // "up", "draining", "stuck", "drained" (it ended in order), "lost" (or never there)
  std::string state;
  std::int32_t requests = 0;  // of this router, that involve it
  // As it last said; zero where it is not connected.
  std::uint32_t queued = 0;
  std::uint32_t running = 0;
  std::int32_t queued_tokens = 0;
  std::int32_t free_blocks = 0;
  std::int32_t total_blocks = 0;
  std::int32_t quarantined_blocks = 0;
  std::int32_t usable_pairs = 0;
  std::uint64_t step_number = 0;
  Duration step_running{0};  // zero: no step runs
  std::string last_error;    // of its connection; empty while connected
};

class ClusterAdmin {
 public:
  virtual ~ClusterAdmin() = default;
  virtual std::vector<NodeStatus> NodeStatuses() const = 0;
  // Asks the node to finish what it has within `budget` and to end. Again: the nearer end counts.
  // Errors: NotFound (no such name), FailedPrecondition (it is not connected).
  virtual Status DrainNode(std::string_view name, Duration budget) = 0;
};

}  // namespace tandem::router
