// RouterCore: what it does with the nodes' messages.
#include <utility>
#include <variant>

#include "router/core/router_impl.h"

namespace tandem::router {

using handoff::Message;
using handoff::NodeId;
using handoff::RequestId;
using Kind = handoff::RequestMachine::Kind;

RouterCore::Impl::Request* RouterCore::Impl::Find(RequestId id) {
  if (id.router != config_.incarnation) return nullptr;
  auto it = requests_.find(id.number);
  return it == requests_.end() ? nullptr : &it->second;
}

void RouterCore::Impl::Stale(const Cause& cause, RequestId id, Actions& out) {
  ++counters_.stale_messages;
  out.emplace_back(
      Note(StaleMessage{std::string(cause.node), cause.message, id, Find(id) == nullptr}));
}

void RouterCore::Impl::OnPlaced(Time now, NodeId from, const handoff::Placed& message,
                                Actions& out) {
  const Cause cause{.node = NameOf(from), .message = "Placed"};
  Request* request = Find(message.key.request);
  if (request == nullptr) {  // done or cancelled: the prefill node must let go
    Stale(cause, message.key.request, out);
    out.emplace_back(Send{from, handoff::Cancel{{message.key.request, message.key.attempt,
                                                 handoff::kAllPlacements}}});
    return;
  }
  const auto sink = nodes_.FindSink(message.sink);
  const auto outcome = request->machine.OnPlaced(from, message, sink, sends_);
  if (outcome.kind == Kind::kHandled && request->machine.current() == message.key) {
    ++counters_.placements_noted;
    ++request->bill.placements;
    std::string before = std::exchange(request->bill.decode_node, message.sink);
    // Numbers that a full node refused are no placements.
    if (!before.empty()) {
      ++counters_.placed_again;
      out.emplace_back(Note(PlacedAgain{message.key, std::move(before), message.sink}));
    }
    if (NodeTable::Node* node = nodes_.Find(request->counted_decode)) --node->requests;
    request->counted_decode = *sink;
    if (request->on_trial) nodes_.Find(*sink)->on_trial = true;
    ++nodes_.Find(*sink)->requests;
  }
  Apply(now, *request, outcome, cause, out);
}

void RouterCore::Impl::OnTransferReport(NodeId from, const handoff::TransferReport& message,
                                        Actions& out) {
  Request* request = Find(message.key.request);
  if (request == nullptr || request->machine.attempt() != message.key.attempt) {
    return Stale({.node = NameOf(from), .message = "TransferReport"}, message.key.request, out);
  }
  request->bill.times = message.times;
}

void RouterCore::Impl::OnFirstToken(Time now, NodeId from, const handoff::FirstToken& message,
                                    Request& request, const Cause& cause, Actions& out) {
  const auto outcome = request.machine.OnFirstToken(from, message);
  if (outcome.kind != Kind::kStale) {
    request.bill.times = message.times;
    if (NodeTable::Node* prefill = nodes_.Find(request.counted_prefill)) {
      prefill->queued_tokens -= request.counted_tokens;
      request.counted_tokens = TokenCount(0);
      prefill->starts.Left(request.machine.id().number, now);
    }
  }
  Apply(now, request, outcome, cause, out);
}

void RouterCore::Impl::OnTokens(Time now, NodeId from, const handoff::Tokens& message,
                                Request& request, Cause cause, Actions& out) {
  const auto outcome = request.machine.OnTokens(from, message, sends_);
  if (outcome.kind == Kind::kHandled && request.voice != message.key) {
    request.voice = message.key;
    request.granted = message.first.value() + std::int64_t{handoff::kCreditWindow};
  }
  cause.reason = "gap";
  Apply(now, request, outcome, cause, out);
}

void RouterCore::Impl::OnFailed(Time now, NodeId from, const handoff::Failed& message,
                                Request& request, Cause cause, Actions& out) {
  const auto outcome = request.machine.OnFailed(from, message, sends_);
  // It reached no sink although its last heartbeat named some: nothing more before the next one.
  if (outcome.kind == Kind::kRequeued && message.reason == handoff::Reason::kNoSink) {
    nodes_.Find(from)->resting = true;
  }
  cause.reason = ToString(message.reason);
  Apply(now, request, outcome, cause, out);
}

void RouterCore::Impl::OnRefused(Time now, NodeId from, const handoff::Refused& message,
                                 Request& request, Cause cause, Actions& out) {
  NodeTable::Node& node = *nodes_.Find(from);
  if (message.reason == handoff::Reason::kFull) node.resting = true;
  if (message.reason == handoff::Reason::kDraining) node.draining = true;
  cause.reason = ToString(message.reason);
  cause.never_ran =
      message.reason == handoff::Reason::kFull || message.reason == handoff::Reason::kDraining;
  Apply(now, request, request.machine.OnRefused(from, message, sends_), cause, out);
  PairsMayHaveChanged(now, out);
}

void RouterCore::Impl::OnMessage(Time now, NodeId from, const Message& message, Actions& out) {
  if (nodes_.Find(from) == nullptr) {
    ++counters_.stale_messages;
  } else if (const auto* m = std::get_if<handoff::Heartbeat>(&message)) {
    OnHeartbeat(now, from, *m, out);
  } else if (const auto* m = std::get_if<handoff::Placed>(&message)) {
    OnPlaced(now, from, *m, out);
  } else if (const auto* m = std::get_if<handoff::TransferReport>(&message)) {
    OnTransferReport(from, *m, out);
  } else if (!std::holds_alternative<handoff::Accepted>(message) &&
             !std::holds_alternative<handoff::Cancelled>(message)) {
    OnRequestMessage(now, from, message, out);
  }
  DispatchIfWanted(now, out);
}

void RouterCore::Impl::OnRequestMessage(Time now, NodeId from, const Message& message,
                                        Actions& out) {
  const Cause cause{.node = NameOf(from), .message = MessageName(message)};
  // Calls `handle` with the request that the message names; an unknown one is stale.
  auto with = [&](RequestId id, auto&& handle) {
    Request* request = Find(id);
    if (request == nullptr) {
      Stale(cause, id, out);
    } else {
      handle(*request);
    }
  };
  if (const auto* m = std::get_if<handoff::FirstToken>(&message)) {
    with(m->request, [&](Request& request) { OnFirstToken(now, from, *m, request, cause, out); });
  } else if (const auto* m = std::get_if<handoff::Tokens>(&message)) {
    with(m->key.request, [&](Request& request) { OnTokens(now, from, *m, request, cause, out); });
  } else if (const auto* m = std::get_if<handoff::Failed>(&message)) {
    with(m->key.request, [&](Request& request) { OnFailed(now, from, *m, request, cause, out); });
  } else if (const auto* m = std::get_if<handoff::Refused>(&message)) {
    with(m->request, [&](Request& request) { OnRefused(now, from, *m, request, cause, out); });
  } else {
    ++counters_.stale_messages;
  }
}

}  // namespace tandem::router
