// Gives every life of a peer its NodeId: equal (name, incarnation), equal id; ids are never used
// again. Not thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/handoff/ids.h"

namespace tandem::handoff {

class NodeDirectory {
 public:
  NodeId IdOf(std::string_view name, Incarnation incarnation) {
    auto [it, is_new] = ids_.try_emplace(std::pair(std::string(name), incarnation), next_);
    if (is_new) ++next_;
    return it->second;
  }

 private:
  NodeId next_{1};
  absl::flat_hash_map<std::pair<std::string, Incarnation>, NodeId> ids_;
};

}  // namespace tandem::handoff
