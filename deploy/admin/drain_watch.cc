#include "deploy/admin/drain_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tandem::deploy {

StatusOr<DrainWatch> DrainWatch::Begin(const std::vector<NodeRow>& nodes, const std::string& name) {
  std::vector<std::string> names;
  for (const NodeRow& node : nodes) {
    if (node.name == name) return DrainWatch(name, node.incarnation);
    if (!node.name.empty()) names.push_back(node.name);
  }
  return NotFound("there is no node '{}'; there are: {}", name, fmt::join(names, ", "));
}

const NodeRow* DrainWatch::Find(const std::vector<NodeRow>& nodes) const {
  auto it = std::find_if(nodes.begin(), nodes.end(), [&](const NodeRow& node) {
    return node.name == name_ && node.incarnation == incarnation_;
  });
  return it == nodes.end() ? nullptr : &*it;
}

StatusOr<bool> DrainWatch::IsGone(const std::vector<NodeRow>& nodes) const {
  const NodeRow* node = Find(nodes);
  if (node == nullptr || node->state == "drained") return true;
  if (node->state != "lost") return false;
  return Unavailable("{} was lost before it had drained: {}", name_, node->last_error);
}

std::string DrainWatch::Progress(const std::vector<NodeRow>& nodes) const {
  const NodeRow* node = Find(nodes);
  if (node == nullptr) return "gone";
  return fmt::format("{} requests, {} running, {} queued", node->requests, node->running,
                     node->queued);
}

bool DrainWatch::LeavesNoPair(const std::vector<NodeRow>& nodes) const {
  return std::none_of(nodes.begin(), nodes.end(), [&](const NodeRow& node) {
    const NodeRow* drained = Find(nodes);
    // A node of the other role that has a pair with one more than the drained one.
    const bool pairs_with_it =
        drained != nullptr && drained->usable_pairs > 0 && node.role != drained->role;
    return node.role == "decode" && &node != drained && node.usable_pairs > (pairs_with_it ? 1 : 0);
  });
}

}  // namespace tandem::deploy
