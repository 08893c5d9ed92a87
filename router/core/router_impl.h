// RouterCore's state; see router_core.h. One Request per unfinished request.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/handoff/deadline_queue.h"
#include "common/handoff/request_machine.h"
#include "router/core/node_table.h"
#include "router/core/router_core.h"

namespace tandem::router {

class RouterCore::Impl {
 public:
  explicit Impl(const RouterConfig& config) : config_(config) {}

  void NodeConnected(Time now, handoff::NodeId node, const handoff::Hello& hello, Actions& out);
  void NodeLost(Time now, handoff::NodeId node, handoff::Loss loss, Actions& out);
  void OnMessage(Time now, handoff::NodeId node, const handoff::Message& message, Actions& out);
  Status Submit(Time now, RequestSpec spec, Actions& out);
  void End(Time now, handoff::RequestId id, const Status& status, Actions& out);
  void ClientConsumed(handoff::RequestId id, std::int32_t positions, Actions& out);
  void DrainNode(Time now, handoff::NodeId node, Duration budget, Actions& out);
  void Stop(Time now, const Status& reason, Actions& out);
  void OnTime(Time now, Actions& out);

  Time NextDeadline() const { return deadlines_.next(); }
  bool ready() const { return usable_pairs_ > 0; }
  RouterStats stats() const;
  std::vector<NodeView> nodes() const;

 private:
  using Machine = handoff::RequestMachine;
  struct Request {
    explicit Request(const RequestSpec& spec) : machine(spec.id, spec.tokens, spec.params) {}
    Machine machine;
    Hash128 model_instance;
    std::vector<ClassHashes> hashes;
    Deadline deadline;
    Bill bill;
    // Where this request is counted as load; 0: nowhere.
    handoff::NodeId counted_prefill{0};
    TokenCount counted_tokens{0};
    handoff::NodeId counted_decode{0};
    // Of the decode node's stream: positions that it may send, and that the client took.
    handoff::PlacementKey voice;
    std::int64_t granted = 0;
    std::int64_t consumed = 0;
  };

  Request* Find(handoff::RequestId id);
  void OnFirstToken(Time now, handoff::NodeId from, const handoff::FirstToken& message,
                    Request& request, Actions& out);
  void OnTokens(Time now, handoff::NodeId from, const handoff::Tokens& message, Request& request,
                Actions& out);
  void OnFailed(Time now, handoff::NodeId from, const handoff::Failed& message, Request& request,
                Actions& out);
  void OnRefused(Time now, handoff::NodeId from, const handoff::Refused& message, Request& request,
                 Actions& out);
  void OnPlaced(Time now, handoff::NodeId from, const handoff::Placed& message, Actions& out);
  void OnTransferReport(const handoff::TransferReport& message);
  void OnHeartbeat(Time now, handoff::NodeId from, const handoff::Heartbeat& message, Actions& out);
  // Does what the outcome asks for: deliver, requeue, finish. `request` may be gone afterwards.
  void Apply(Time now, Request& request, const Machine::Outcome& outcome, Actions& out);
  void Deliver(Time now, Request& request, Position first, Actions& out);
  void GrantCredit(Request& request, Actions& out);
  void FlushSends(Actions& out);
  void Dispatch(Time now, Actions& out);
  bool StartAttempt(Time now, Request& request, Actions& out);
  handoff::HashList HashesOf(Request& request, const std::string& numerics);
  void Uncount(Request& request);
  void PairsMayHaveChanged(Time now, Actions& out);
  void SendPeers(Actions& out);

  const RouterConfig config_;
  NodeTable nodes_;
  std::int32_t usable_pairs_ = 0;
  bool stopping_ = false;
  std::uint64_t last_number_ = 0;              // of the requests submitted
  std::map<std::uint64_t, Request> requests_;  // by RequestId::number
  std::set<std::uint64_t> queue_;              // numbers: the oldest first, retries included
  handoff::DeadlineQueue<std::uint64_t> deadlines_;
  std::vector<Send> sends_;  // scratch
  RouterStats counters_;
};

}  // namespace tandem::router
