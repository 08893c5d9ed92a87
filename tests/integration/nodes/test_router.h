// As much of a router as nodes need: dials them, names the decode nodes to the prefill nodes, sends
// requests, notes placements, gives credit and keeps what came back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/handoff/messages.h"
#include "common/net/endpoint.h"
#include "common/net/io_threads.h"
#include "common/net/strand.h"
#include "common/worker/peer_table.h"

namespace tandem::testing {

// Thread-safe.
class TestRouter {
 public:
  // How far a request has come: what it was told about last.
  enum class Phase { kSent, kAccepted, kPlaced, kFirstToken, kTokens, kEnded };

  struct Outcome {
    Phase phase = Phase::kSent;
    TokenIds tokens;  // in order of position
    sequence::FinishReason finish = sequence::FinishReason::kNone;
    std::optional<handoff::Reason> failure;  // Refused or Failed
    bool repeats_differ = false;             // a position came twice, with different tokens
    std::string sink;
    std::optional<handoff::PhaseTimes> first_times;  // of FirstToken
    std::optional<handoff::PhaseTimes> times;        // of TransferReport
    Time sent{};
    Time first_token_at{};
    Time joined_at{};  // of TransferReport's arrival
  };

  explicit TestRouter(const rpc::Options& options);
  ~TestRouter();

  // Dials these and waits until every prefill node can use every decode node.
  void Connect(const std::vector<net::HostPort>& prefill, const std::vector<net::HostPort>& decode);
  // Closes all connections and waits for their ends.
  void Disconnect();

  // What the nodes' Hellos say.
  std::set<std::string> NumericsClasses();

  // Prompt tokens with hashes for a node's prefix cache; round robin over nodes by number.
  std::uint64_t Send(TokenIds prompt, const sequence::SamplingParams& params);
  // Cancels everywhere as soon as the request has come to `phase` (at once when it has).
  void CancelAt(std::uint64_t request, Phase phase);
  Outcome Await(std::uint64_t request, Phase phase = Phase::kEnded);
  // From now on placements are neither noted nor refused: hand-offs wait.
  void HoldPlacements();
  // Until a node has said so of one of its numbers.
  void AwaitAboveZero(const std::string& node, const std::string& metric);
  // Waits for the TransferReport.
  handoff::PhaseTimes AwaitTimes(std::uint64_t request);
  // Until every connected node has said twice since this call that nothing is left to do. Returns
  // the last words of all, by node.
  std::map<std::string, std::map<std::string, std::int64_t>> AwaitIdle();

 private:
  struct Request {
    Outcome outcome;
    handoff::NodeId prefill;
    std::optional<Phase> cancel_at;
    bool cancelled = false;
    std::set<handoff::NodeId> cancelling;  // no Cancelled from these yet
  };
  struct Node {
    handoff::Hello hello;
    std::set<std::string> usable;
    std::map<std::string, std::int64_t> metrics;
    int idle_heartbeats = 0;
  };

  void OnMessage(handoff::NodeId from, handoff::Message message);
  void On(handoff::NodeId from, const handoff::Heartbeat& m);
  void On(handoff::NodeId from, const handoff::Accepted& m);
  void On(handoff::NodeId from, const handoff::Refused& m);
  void On(handoff::NodeId from, const handoff::Placed& m);
  void On(handoff::NodeId from, const handoff::FirstToken& m);
  void On(handoff::NodeId from, const handoff::Tokens& m);
  void On(handoff::NodeId from, const handoff::TransferReport& m);
  void On(handoff::NodeId from, const handoff::Failed& m);
  void On(handoff::NodeId from, const handoff::Cancelled& m);
  template <typename T>
  void On(handoff::NodeId, const T&) {}

  void Reach(Request& request, std::uint64_t number, Phase phase);
  void Cancel(Request& request, std::uint64_t number);
  void Take(Request& request, Position position, TokenId token);
  void TellPeers();
  Request& Of(const handoff::RequestId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const handoff::Incarnation incarnation_;
  Mutex mutex_;
  std::map<std::uint64_t, Request> requests_ ABSL_GUARDED_BY(mutex_);
  std::map<handoff::NodeId, Node> nodes_ ABSL_GUARDED_BY(mutex_);
  bool hold_placements_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;
  net::IoThreads io_{1};
  net::Strand strand_{io_};
  std::unique_ptr<worker::PeerTable> peers_;
};

}  // namespace tandem::testing
