// RouterCore: nodes that come, go, drain and stand still.
#include <utility>

#include "router/core/router_impl.h"
#include "router/core/step_limit.h"

namespace tandem::router {

using handoff::Loss;
using handoff::NodeId;
using What = NodeChanged::What;

namespace {

std::string_view LossName(Loss loss) {
  switch (loss) {
    case Loss::kDied:
      return "died";
    case Loss::kSilent:
      return "silent";
    case Loss::kClosed:
      return "closed";
  }
  return "lost";
}

}  // namespace

std::string_view RouterCore::Impl::NameOf(NodeId node) const {
  auto it = nodes_.nodes().find(node);
  return it == nodes_.nodes().end() ? std::string_view() : it->second.hello.name;
}

void RouterCore::Impl::NodeConnected(Time now, NodeId node, const handoff::Hello& hello,
                                     Actions& out) {
  if (nodes_.Find(node) != nullptr) NodeLost(now, node, Loss::kClosed, out);
  if (auto old = nodes_.FindByName(hello.name)) NodeLost(now, *old, Loss::kClosed, out);
  nodes_.Add(node, hello);
  for (auto& [number, request] : requests_) {
    const bool waits = request.machine.suspected();
    request.machine.OnNodeBack(node);
    if (waits && !request.machine.suspected()) {
      waiting_.Remove(number);
      waiting_.AddRetry(number, now, now);
    }
  }
  Tell({.what = What::kConnected, .node = hello.name, .role = hello.role}, out);
  SendPeers(out);
  PairsMayHaveChanged(now, out);
}

void RouterCore::Impl::NodeLost(Time now, NodeId node, Loss loss, Actions& out) {
  const NodeTable::Node* entry = nodes_.Find(node);
  if (entry == nullptr) return;
  NodeChanged change{.what = What::kLost,
                     .node = entry->hello.name,
                     .role = entry->hello.role,
                     .reason = LossName(loss)};
  // The end of a node that was told to go is no death.
  if (entry->draining && loss != Loss::kClosed) {
    if (loss == Loss::kDied) change.reason = "drained";
    loss = Loss::kClosed;
  }
  nodes_.Remove(node);
  ++counters_.nodes_lost;
  change.requests = MoveStreams(now, node, loss, {change.node, change.reason}, out);
  Tell(std::move(change), out);
  SendPeers(out);
  PairsMayHaveChanged(now, out);
  Dispatch(now, out);
}

std::int32_t RouterCore::Impl::MoveStreams(Time now, NodeId node, Loss loss, const Cause& cause,
                                           Actions& out) {
  const bool gone = nodes_.Find(node) == nullptr;
  std::int32_t moved = 0;
  for (auto it = requests_.begin(); it != requests_.end();) {
    Request& request = (it++)->second;  // Apply may erase it
    if (gone && request.counted_prefill == node) request.counted_prefill = NodeId(0);
    if (gone && request.counted_decode == node) request.counted_decode = NodeId(0);
    if (!request.machine.involves(node)) continue;
    const auto outcome = request.machine.OnNodeLost(node, loss, sends_);
    if (outcome.kind != Machine::Kind::kHandled) ++moved;
    Apply(now, request, outcome, cause, out);
  }
  return moved;
}

void RouterCore::Impl::SendPeers(Actions& out) {
  const handoff::Peers peers = nodes_.MakePeers();
  for (const auto& [id, node] : nodes_.nodes()) {
    if (node.hello.role == handoff::Role::kPrefill) out.emplace_back(Send{id, peers});
  }
}

void RouterCore::Impl::PairsMayHaveChanged(Time now, Actions& out) {
  const std::int32_t pairs = nodes_.UsablePairs();
  if (pairs == usable_pairs_) return;
  if (pairs == 0) no_pair_since_ = now;
  usable_pairs_ = pairs;
  out.emplace_back(Readiness{pairs});
  Dispatch(now, out);
}

void RouterCore::Impl::OnHeartbeat(Time now, NodeId from, const handoff::Heartbeat& message,
                                   Actions& out) {
  NodeTable::Node& node = *nodes_.Find(from);
  const bool was_draining = node.draining;
  nodes_.OnHeartbeat(node, message);
  NodeChanged change{.node = node.hello.name, .role = node.hello.role};
  if (node.draining && !was_draining) {
    change.what = What::kDraining;
    Tell(change, out);
  }
  const bool stuck = message.step_running_for > StepLimit(node.hello, node.load);
  if (stuck != node.stuck) {
    node.stuck = stuck;
    change.what = stuck ? What::kStuck : What::kMovesAgain;
    change.step_running = message.step_running_for;
    // A request that makes every step of every node stand still must not walk through the fleet:
    // this counts as a death.
    if (stuck) {
      ++counters_.nodes_stuck;
      change.requests = MoveStreams(now, from, Loss::kDied, {change.node, "stuck"}, out);
    }
    Tell(std::move(change), out);
  }
  PairsMayHaveChanged(now, out);
  Dispatch(now, out);  // a resting node may take work again
}

void RouterCore::Impl::DrainNode(Time now, NodeId node, Duration budget, Actions& out) {
  NodeTable::Node* entry = nodes_.Find(node);
  if (entry == nullptr) return;
  if (!std::exchange(entry->draining, true)) {
    Tell({.what = What::kDraining, .node = entry->hello.name, .role = entry->hello.role}, out);
  }
  out.emplace_back(Send{node, handoff::Drain{budget}});
  PairsMayHaveChanged(now, out);
}

std::vector<NodeView> RouterCore::Impl::nodes() const {
  std::vector<NodeView> views;
  for (const auto& [id, node] : nodes_.nodes()) {
    views.push_back({.name = node.hello.name,
                     .role = node.hello.role,
                     .incarnation = node.hello.incarnation,
                     .requests = node.requests,
                     .load = node.load,
                     .usable_pairs = nodes_.UsablePairsOf(node),
                     .draining = node.draining,
                     .stuck = node.stuck});
  }
  return views;
}

}  // namespace tandem::router
