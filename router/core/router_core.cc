#include "router/core/router_core.h"

#include <utility>

#include "common/base/check.h"
#include "common/kv/block_hash.h"
#include "router/core/router_impl.h"

namespace tandem::router {

using handoff::Message;
using handoff::NodeId;
using handoff::RequestId;
using handoff::RequestMachine;
using Kind = RequestMachine::Kind;

Status RouterConfig::Validate() const {
  if (incarnation == handoff::Incarnation()) return InvalidArgument("incarnation is 0");
  if (requests_max < 1)
    return InvalidArgument("requests_max is {}, must be positive", requests_max);
  if (queued_max < 1) return InvalidArgument("queued_max is {}, must be positive", queued_max);
  return OkStatus();
}

// --- nodes

void RouterCore::Impl::NodeConnected(Time now, NodeId node, const handoff::Hello& hello,
                                     Actions& out) {
  if (nodes_.Find(node) != nullptr) NodeLost(now, node, handoff::Loss::kClosed, out);
  if (auto old = nodes_.FindByName(hello.name)) NodeLost(now, *old, handoff::Loss::kClosed, out);
  nodes_.Add(node, hello);
  SendPeers(out);
  PairsMayHaveChanged(now, out);
}

void RouterCore::Impl::NodeLost(Time now, NodeId node, handoff::Loss loss, Actions& out) {
  if (nodes_.Find(node) == nullptr) return;
  nodes_.Remove(node);
  for (auto it = requests_.begin(); it != requests_.end();) {
    Request& request = (it++)->second;  // Apply may erase it
    if (request.counted_prefill == node) request.counted_prefill = NodeId(0);
    if (request.counted_decode == node) request.counted_decode = NodeId(0);
    if (request.machine.involves(node)) {
      Apply(now, request, request.machine.OnNodeLost(node, loss, sends_), out);
    }
  }
  SendPeers(out);
  PairsMayHaveChanged(now, out);
  Dispatch(now, out);
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
  usable_pairs_ = pairs;
  out.emplace_back(Readiness{pairs});
  Dispatch(now, out);
}

void RouterCore::Impl::OnHeartbeat(Time now, NodeId from, const handoff::Heartbeat& message,
                                   Actions& out) {
  nodes_.OnHeartbeat(*nodes_.Find(from), message);
  PairsMayHaveChanged(now, out);
  Dispatch(now, out);  // a resting node may take work again
}

void RouterCore::Impl::DrainNode(Time now, NodeId node, Duration budget, Actions& out) {
  NodeTable::Node* entry = nodes_.Find(node);
  if (entry == nullptr) return;
  entry->draining = true;
  out.emplace_back(Send{node, handoff::Drain{budget}});
  PairsMayHaveChanged(now, out);
}

// --- requests

void RouterCore::Impl::FlushSends(Actions& out) {
  for (Send& send : sends_) {
    if (nodes_.Find(send.to) != nullptr) out.emplace_back(std::move(send));
  }
  sends_.clear();
}

void RouterCore::Impl::Apply(Time now, Request& request, const Machine::Outcome& outcome,
                             Actions& out) {
  FlushSends(out);
  counters_.repeats += outcome.repeats;
  counters_.repeats_different += outcome.repeats_different;
  counters_.gaps += outcome.gap ? 1 : 0;
  if (outcome.kind == Kind::kStale) {
    ++counters_.stale_messages;
    return;
  }
  Machine& machine = request.machine;
  if (machine.delivered() > outcome.first) Deliver(now, request, outcome.first, out);
  const std::uint64_t number = machine.id().number;
  if (outcome.kind == Kind::kRequeued) {
    Uncount(request);
    queue_.insert(number);
  } else if (outcome.kind == Kind::kEnded) {
    Uncount(request);
    switch (machine.state()) {
      case Machine::State::kDone:
        ++counters_.finished;
        break;
      case Machine::State::kCancelled:
        ++counters_.cancelled;
        break;
      default:
        ++counters_.failed;
        break;
    }
    out.emplace_back(
        Finished{machine.id(), machine.status(), machine.finish(), std::move(request.bill)});
    queue_.erase(number);
    deadlines_.Remove(number);
    requests_.erase(number);
  }
}

void RouterCore::Impl::Deliver(Time now, Request& request, Position first, Actions& out) {
  const auto tokens = request.machine.TokensFrom(first);
  const auto logprobs = request.machine.LogprobsFrom(first);
  out.emplace_back(router::Deliver{request.machine.id(),
                                   first,
                                   {tokens.begin(), tokens.end()},
                                   {logprobs.begin(), logprobs.end()}});
  Bill& bill = request.bill;
  if (first == Position(0)) {
    bill.first_token = now;
  } else {
    bill.pause_max = std::max(bill.pause_max, now - bill.last_token);
  }
  bill.last_token = now;
  bill.delivered += TokenCount(static_cast<std::int32_t>(tokens.size()));
  counters_.positions += static_cast<std::int64_t>(tokens.size());
}

void RouterCore::Impl::ClientConsumed(RequestId id, std::int32_t positions, Actions& out) {
  Request* request = Find(id);
  if (request == nullptr || positions <= 0) return;
  request->consumed += positions;
  GrantCredit(*request, out);
}

void RouterCore::Impl::GrantCredit(Request& request, Actions& out) {
  const Machine& machine = request.machine;
  if (machine.state() != Machine::State::kDecoding || request.voice != machine.current()) return;
  const std::int64_t more =
      request.consumed + std::int64_t{handoff::kCreditWindow} - request.granted;
  if (more < std::int64_t{handoff::kCreditWindow} / 2) return;  // not a message per token
  request.granted += more;
  out.emplace_back(Send{machine.decode_node(),
                        handoff::Credit{request.voice, static_cast<std::uint32_t>(more)}});
}

void RouterCore::Impl::Uncount(Request& request) {
  if (NodeTable::Node* node = nodes_.Find(request.counted_prefill)) {
    --node->requests;
    node->queued_tokens -= request.counted_tokens;
  }
  if (NodeTable::Node* node = nodes_.Find(request.counted_decode)) --node->requests;
  request.counted_prefill = request.counted_decode = NodeId(0);
  request.counted_tokens = TokenCount(0);
}

Status RouterCore::Impl::Submit(Time now, RequestSpec spec, Actions& out) {
  if (stopping_) return Cancelled("the router is stopping");
  if (spec.id.router != config_.incarnation || spec.id.number <= last_number_) {
    return InvalidArgument("request number {} does not follow {}", spec.id.number, last_number_);
  }
  if (spec.tokens == nullptr || spec.tokens->empty()) {
    return InvalidArgument("the prompt has no tokens");
  }
  TANDEM_RETURN_IF_ERROR(spec.params.Validate());
  if (requests_.size() >= static_cast<std::size_t>(config_.requests_max)) {
    ++counters_.refused;
    return ResourceExhausted("{} requests are unfinished, the limit is {}", requests_.size(),
                             config_.requests_max);
  }
  if (queue_.size() >= static_cast<std::size_t>(config_.queued_max)) {
    ++counters_.refused;
    return ResourceExhausted("{} requests wait for a node, the limit is {}", queue_.size(),
                             config_.queued_max);
  }
  last_number_ = spec.id.number;
  ++counters_.submitted;
  Request& request = requests_.try_emplace(last_number_, spec).first->second;
  request.model_instance = spec.model_instance;
  request.hashes = std::move(spec.hashes);
  request.deadline = spec.deadline;
  request.bill.arrived = now;
  if (spec.deadline.at() != kNever) deadlines_.Set(last_number_, spec.deadline.at());
  queue_.insert(last_number_);
  Dispatch(now, out);
  return OkStatus();
}

void RouterCore::Impl::Dispatch(Time now, Actions& out) {
  while (!queue_.empty()) {
    Request& request = requests_.find(*queue_.begin())->second;
    if (!StartAttempt(now, request, out)) return;
    queue_.erase(queue_.begin());
  }
}

handoff::HashList RouterCore::Impl::HashesOf(Request& request, const std::string& numerics) {
  for (ClassHashes& entry : request.hashes) {
    if (entry.numerics != numerics) continue;
    const TokenIds& tokens = request.machine.tokens();
    const std::size_t have = entry.hashes ? entry.hashes->size() : 0;
    if (have < tokens.size() / kv::kGranule) {
      auto longer = std::make_shared<std::vector<Hash128>>();
      if (entry.hashes) *longer = *entry.hashes;
      kv::ExtendChain(entry.root, tokens, *longer);
      entry.hashes = std::move(longer);
    }
    return entry.hashes;
  }
  return nullptr;
}

bool RouterCore::Impl::StartAttempt(Time now, Request& request, Actions& out) {
  const auto tokens = TokenCount(static_cast<std::int32_t>(request.machine.tokens().size()));
  auto pair = nodes_.Choose(request.model_instance, tokens, [&](const std::string& numerics) {
    return HashesOf(request, numerics);
  });
  if (!pair.has_value()) return false;
  handoff::Prefill message = request.machine.Start(pair->prefill);
  NodeTable::Node& prefill = *nodes_.Find(pair->prefill);
  message.model_instance = request.model_instance;
  message.hashes = HashesOf(request, prefill.hello.numerics);
  if (message.hashes == nullptr) message.hashes = std::make_shared<std::vector<Hash128>>();
  message.ranked_sinks = std::move(pair->ranked_sinks);
  if (request.deadline.at() != kNever) {
    message.budget = std::max(request.deadline.Remaining(now), Duration(1));
  }
  ++counters_.attempts;
  ++request.bill.attempts;
  request.bill.prefill_node = prefill.hello.name;
  if (request.bill.dispatched == Time{}) request.bill.dispatched = now;
  request.counted_prefill = pair->prefill;
  request.counted_tokens = pair->uncached;
  request.counted_decode = pair->first_sink;
  ++prefill.requests;
  prefill.queued_tokens += pair->uncached;
  ++nodes_.Find(pair->first_sink)->requests;
  out.emplace_back(Send{pair->prefill, std::move(message)});
  return true;
}

void RouterCore::Impl::End(Time now, RequestId id, const Status& status, Actions& out) {
  if (Request* request = Find(id)) {
    Apply(now, *request, request->machine.End(status, sends_), out);
  }
}

void RouterCore::Impl::Stop(Time now, const Status& reason, Actions& out) {
  stopping_ = true;
  while (!requests_.empty()) {
    End(now, requests_.begin()->second.machine.id(), reason, out);
  }
}

void RouterCore::Impl::OnTime(Time now, Actions& out) {
  while (auto number = deadlines_.Pop(now)) {
    End(now, {config_.incarnation, *number}, DeadlineExceeded("the request's deadline passed"),
        out);
  }
}

RouterStats RouterCore::Impl::stats() const {
  RouterStats stats = counters_;
  stats.nodes = static_cast<std::int32_t>(nodes_.nodes().size());
  stats.usable_pairs = usable_pairs_;
  stats.requests = static_cast<std::int32_t>(requests_.size());
  stats.queued = static_cast<std::int32_t>(queue_.size());
  return stats;
}

std::vector<NodeView> RouterCore::Impl::nodes() const {
  std::vector<NodeView> views;
  for (const auto& [id, node] : nodes_.nodes()) {
    views.push_back({node.hello.name, node.hello.role, node.hello.incarnation, node.requests,
                     node.load, nodes_.UsablePairsOf(node)});
  }
  return views;
}

// --- the public face

RouterCore::RouterCore(const RouterConfig& config) : impl_(std::make_unique<Impl>(config)) {
  TANDEM_CHECK(config.Validate().ok());
}
RouterCore::~RouterCore() = default;

void RouterCore::NodeConnected(Time now, NodeId node, const handoff::Hello& hello, Actions& out) {
  impl_->NodeConnected(now, node, hello, out);
}
void RouterCore::NodeLost(Time now, NodeId node, handoff::Loss loss, Actions& out) {
  impl_->NodeLost(now, node, loss, out);
}
void RouterCore::OnMessage(Time now, NodeId node, Message message, Actions& out) {
  impl_->OnMessage(now, node, message, out);
}
Status RouterCore::Submit(Time now, RequestSpec spec, Actions& out) {
  return impl_->Submit(now, std::move(spec), out);
}
void RouterCore::ClientGone(Time now, RequestId request, Actions& out) {
  impl_->End(now, request, Cancelled("the client left"), out);
}
void RouterCore::StopMatched(Time now, RequestId request, Position, Actions& out) {
  impl_->End(now, request, OkStatus(), out);
}
void RouterCore::ClientConsumed(Time, RequestId request, std::int32_t positions, Actions& out) {
  impl_->ClientConsumed(request, positions, out);
}
void RouterCore::DrainNode(Time now, NodeId node, Duration budget, Actions& out) {
  impl_->DrainNode(now, node, budget, out);
}
void RouterCore::Stop(Time now, const Status& reason, Actions& out) {
  impl_->Stop(now, reason, out);
}
void RouterCore::OnTime(Time now, Actions& out) { impl_->OnTime(now, out); }
Time RouterCore::NextDeadline() const { return impl_->NextDeadline(); }
bool RouterCore::ready() const { return impl_->ready(); }
RouterStats RouterCore::stats() const { return impl_->stats(); }
std::vector<NodeView> RouterCore::nodes() const { return impl_->nodes(); }

}  // namespace tandem::router
