// RouterCore's state; see router_core.h. One Request per unfinished request.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/handoff/deadline_queue.h"
#include "common/handoff/request_machine.h"
#include "router/core/completion_rate.h"
#include "router/core/node_table.h"
#include "router/core/router_core.h"
#include "router/core/waiting_room.h"

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
  Status Admission() const;
  // Whether a first token may come before the deadline.
  Status CheckDeadline(Time now, const RequestSpec& spec) const;
  std::int64_t CountWithoutToken() const;
  Duration RetryAfter(Time now) const;
  void OnTime(Time now, Actions& out);

  Time NextDeadline() const;
  bool ready() const { return usable_pairs_ > 0; }
  RouterStats stats() const;
  std::vector<NodeView> nodes() const;

 private:
  using Machine = handoff::RequestMachine;
  // What made an attempt end, for people; the views outlive the event.
  struct Cause {
    std::string_view node;          // its name
    std::string_view reason = {};   // static
    std::string_view message = {};  // its type; static
    bool never_ran = false;         // the node did not take it: as if not tried
  };
  // An attempt that ended before its request did.
  struct Left {
    std::string reason;
    std::string node;
    handoff::Attempt attempt;
    TokenCount delivered{0};
  };
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
    bool on_trial = false;     // alone at its nodes, which are marked so
    bool begun = false;        // a node took it: the next attempt is a retry
    bool retrying = false;     // a new attempt without a token: one of retries_under_way_
    std::optional<Left> left;  // until a later attempt shows what came of it
  };

  Request* Find(handoff::RequestId id);
  std::string_view NameOf(handoff::NodeId node) const;

  // Nodes.
  void OnHeartbeat(Time now, handoff::NodeId from, const handoff::Heartbeat& message, Actions& out);
  // Every stream there goes on elsewhere.
  std::int32_t MoveStreams(Time now, handoff::NodeId node, handoff::Loss loss, const Cause& cause,
                           Actions& out);
  void PairsMayHaveChanged(Time now, Actions& out);
  void SendPeers(Actions& out);
  void Tell(NodeChanged change, Actions& out) { out.emplace_back(Note(std::move(change))); }

  // Messages about one request.
  void OnRequestMessage(Time now, handoff::NodeId from, const handoff::Message& message,
                        Actions& out);
  void OnFirstToken(Time now, handoff::NodeId from, const handoff::FirstToken& message,
                    Request& request, const Cause& cause, Actions& out);
  void OnTokens(Time now, handoff::NodeId from, const handoff::Tokens& message, Request& request,
                Cause cause, Actions& out);
  void OnFailed(Time now, handoff::NodeId from, const handoff::Failed& message, Request& request,
                Cause cause, Actions& out);
  void OnRefused(Time now, handoff::NodeId from, const handoff::Refused& message, Request& request,
                 Cause cause, Actions& out);
  void OnPlaced(Time now, handoff::NodeId from, const handoff::Placed& message, Actions& out);
  void OnTransferReport(handoff::NodeId from, const handoff::TransferReport& message, Actions& out);
  void Stale(const Cause& cause, handoff::RequestId id, Actions& out);

  // Requests.
  // Does what the outcome asks for: deliver, requeue, finish. `request` may be gone afterwards.
  void Apply(Time now, Request& request, const Machine::Outcome& outcome, const Cause& cause,
             Actions& out);
  void Requeue(Time now, Request& request, bool counted, const Cause& cause, Actions& out);
  void Finish(Time now, Request& request, Actions& out);
  void Deliver(Time now, Request& request, Position first, Actions& out);
  // The attempt after `request.left` came to something.
  void ShowFailOver(Time now, Request& request, bool resumed, Actions& out);
  void GrantCredit(Request& request, Actions& out);
  void FlushSends(Actions& out);
  void Dispatch(Time now, Actions& out);
  // Dispatch, if a request came back or a retry made room for another.
  void DispatchIfWanted(Time now, Actions& out);
  bool StartAttempt(Time now, Request& request, Actions& out);
  handoff::HashList HashesOf(Request& request, const std::string& numerics);
  void Uncount(Time now, Request& request);
  // The nodes that it is counted at may hold another suspect from now on, or it is one no more.
  void EndTrial(Request& request);
  void RetryIsUnderWay(Request& request, bool under_way);
  // When the oldest new request has waited long enough for a pair.
  Time GiveUpAt() const;

  const RouterConfig config_;
  NodeTable nodes_;
  std::int32_t usable_pairs_ = 0;
  bool stopping_ = false;
  std::uint64_t last_number_ = 0;              // of the requests submitted
  std::map<std::uint64_t, Request> requests_;  // by RequestId::number
  WaitingRoom waiting_;
  std::int32_t retries_under_way_ = 0;
  bool dispatch_wanted_ = false;
  Time no_pair_since_{};
  CompletionRate completions_;
  handoff::DeadlineQueue<std::uint64_t> deadlines_;
  std::vector<Send> sends_;  // scratch
  RouterStats counters_;
};

}  // namespace tandem::router
