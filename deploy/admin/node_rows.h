// A router's nodes as `GET /nodes` of its admin port tells them, and as a table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

struct NodeRow {
  std::string name;
  std::string role;
  std::string address;
  std::string incarnation;
  std::string state;
  std::int64_t requests = 0;
  std::int64_t queued = 0;
  std::int64_t running = 0;
  std::int64_t free_blocks = 0;
  std::int64_t total_blocks = 0;
  std::int64_t quarantined_blocks = 0;
  std::int64_t usable_pairs = 0;
  double step_running_ms = 0;
  std::string last_error;
};

// Errors: Unavailable when it is not what a router says.
StatusOr<std::vector<NodeRow>> ParseNodes(std::string_view json);

// Columns padded with spaces, a heading, one line a node; what went wrong at the end of its line.
std::string NodesTable(const std::vector<NodeRow>& nodes);

}  // namespace tandem::deploy
