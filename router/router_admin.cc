// What RouterService shows and does for an operator.
#include <algorithm>

#include "router/router_service.h"

namespace tandem::router {

std::vector<NodeStatus> RouterService::NodeStatuses() const {
  const std::vector<NodeView> views = core_.nodes();
  std::vector<NodeStatus> out;
  for (const auto& node : nodes_) {
    NodeStatus& status = out.emplace_back();
    status.name = node->hello.name;
    status.role = RoleName(node->role);
    status.address = node->link->address().ToString();
    status.incarnation = node->hello.incarnation.value();
    auto view = std::find_if(views.begin(), views.end(), [&](const NodeView& v) {
      return node->id && v.name == node->hello.name && v.incarnation == node->hello.incarnation;
    });
    if (view == views.end()) {
      status.state = node->drained ? "drained" : "lost";
      status.last_error = FromAbsl(node->link->last_error().message());
      continue;
    }
    status.state = view->stuck ? "stuck" : view->draining ? "draining" : "up";
    status.requests = view->requests;
    status.queued = view->load.queued;
    status.running = view->load.running;
    status.queued_tokens = view->load.queued_tokens.value();
    status.free_blocks = view->load.free_blocks.value();
    status.total_blocks = node->hello.capacity.num_blocks.value();
    status.quarantined_blocks = view->load.quarantined_blocks.value();
    status.usable_pairs = view->usable_pairs;
    status.step_number = view->load.step_number;
    status.step_running = view->load.step_running_for;
  }
  return out;
}

Status RouterService::DrainNode(std::string_view name, Duration budget) {
  const auto is_named = [name](const auto& node) { return node->hello.name == name; };
  auto it = std::find_if(nodes_.begin(), nodes_.end(),
                         [&](const auto& node) { return is_named(node) && node->id; });
  if (it == nodes_.end()) {
    if (std::none_of(nodes_.begin(), nodes_.end(), is_named)) {
      return NotFound("there is no node '{}'; GET /nodes names them", name);
    }
    return FailedPrecondition("node '{}' is not connected", name);
  }
  core_.DrainNode(SteadyNow(), *(*it)->id, budget, actions_);
  Run();
  return OkStatus();
}

}  // namespace tandem::router
