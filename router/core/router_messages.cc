// RouterCore: what it does with the nodes' messages.
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

void RouterCore::Impl::OnPlaced(Time now, NodeId from, const handoff::Placed& message,
                                Actions& out) {
  Request* request = Find(message.key.request);
  if (request == nullptr) {  // done or cancelled: the prefill node must let go
    ++counters_.stale_messages;
    out.emplace_back(Send{from, handoff::Cancel{{message.key.request, message.key.attempt,
                                                 handoff::kAllPlacements}}});
    return;
  }
  const auto sink = nodes_.FindSink(message.sink);
  const auto outcome = request->machine.OnPlaced(from, message, sink, sends_);
  if (outcome.kind == Kind::kHandled && request->machine.current() == message.key) {
    ++counters_.placements_noted;
    ++request->bill.placements;
    request->bill.decode_node = message.sink;
    if (request->counted_decode != NodeId(0)) --nodes_.Find(request->counted_decode)->requests;
    request->counted_decode = *sink;
    ++nodes_.Find(*sink)->requests;
  }
  Apply(now, *request, outcome, out);
}

void RouterCore::Impl::OnTransferReport(const handoff::TransferReport& message) {
  Request* request = Find(message.key.request);
  if (request == nullptr || request->machine.attempt() != message.key.attempt) {
    ++counters_.stale_messages;
    return;
  }
  request->bill.times = message.times;
}

void RouterCore::Impl::OnFirstToken(Time now, NodeId from, const handoff::FirstToken& message,
                                    Request& request, Actions& out) {
  const auto outcome = request.machine.OnFirstToken(from, message);
  if (outcome.kind != Kind::kStale) {
    request.bill.times = message.times;
    if (NodeTable::Node* prefill = nodes_.Find(request.counted_prefill)) {
      prefill->queued_tokens -= request.counted_tokens;
      request.counted_tokens = TokenCount(0);
    }
  }
  Apply(now, request, outcome, out);
}

void RouterCore::Impl::OnTokens(Time now, NodeId from, const handoff::Tokens& message,
                                Request& request, Actions& out) {
  const auto outcome = request.machine.OnTokens(from, message, sends_);
  if (outcome.kind == Kind::kHandled && request.voice != message.key) {
    request.voice = message.key;
    request.granted = message.first.value() + std::int64_t{handoff::kCreditWindow};
  }
  Apply(now, request, outcome, out);
}

void RouterCore::Impl::OnFailed(Time now, NodeId from, const handoff::Failed& message,
                                Request& request, Actions& out) {
  const auto outcome = request.machine.OnFailed(from, message, sends_);
  // It reached no sink although its last heartbeat named some: nothing more before the next one.
  if (outcome.kind == Kind::kRequeued && message.reason == handoff::Reason::kNoSink) {
    nodes_.Find(from)->resting = true;
  }
  Apply(now, request, outcome, out);
  Dispatch(now, out);
}

void RouterCore::Impl::OnRefused(Time now, NodeId from, const handoff::Refused& message,
                                 Request& request, Actions& out) {
  NodeTable::Node& node = *nodes_.Find(from);
  if (message.reason == handoff::Reason::kFull) node.resting = true;
  if (message.reason == handoff::Reason::kDraining) node.draining = true;
  Apply(now, request, request.machine.OnRefused(from, message, sends_), out);
  PairsMayHaveChanged(now, out);
  Dispatch(now, out);
}

void RouterCore::Impl::OnMessage(Time now, NodeId from, const Message& message, Actions& out) {
  // Calls `handle` with the request that the message names; an unknown one is stale.
  auto with = [&](RequestId id, auto&& handle) {
    Request* request = Find(id);
    if (request == nullptr) {
      ++counters_.stale_messages;
    } else {
      handle(*request);
    }
  };
  if (nodes_.Find(from) == nullptr) {
    ++counters_.stale_messages;
  } else if (const auto* m = std::get_if<handoff::Heartbeat>(&message)) {
    OnHeartbeat(now, from, *m, out);
  } else if (const auto* m = std::get_if<handoff::Placed>(&message)) {
    OnPlaced(now, from, *m, out);
  } else if (const auto* m = std::get_if<handoff::TransferReport>(&message)) {
    OnTransferReport(*m);
  } else if (const auto* m = std::get_if<handoff::FirstToken>(&message)) {
    with(m->request, [&](Request& request) { OnFirstToken(now, from, *m, request, out); });
  } else if (const auto* m = std::get_if<handoff::Tokens>(&message)) {
    with(m->key.request, [&](Request& request) { OnTokens(now, from, *m, request, out); });
  } else if (const auto* m = std::get_if<handoff::Failed>(&message)) {
    with(m->key.request, [&](Request& request) { OnFailed(now, from, *m, request, out); });
  } else if (const auto* m = std::get_if<handoff::Refused>(&message)) {
    with(m->request, [&](Request& request) { OnRefused(now, from, *m, request, out); });
  } else if (!std::holds_alternative<handoff::Accepted>(message) &&
             !std::holds_alternative<handoff::Cancelled>(message)) {
    ++counters_.stale_messages;
  }
}

}  // namespace tandem::router
