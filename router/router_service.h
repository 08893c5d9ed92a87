// The router without its HTTP side: RouterCore, its clock and its connections to the nodes.
//
//   Submit ──► RouterCore ──actions──► NodeLink::Send, GenerationSink
//   NodeLink ─messages─►      ▲ Timer
//
// Lives on one strand. Actions are run in order by one loop, never inside Submit().
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/handoff/node_directory.h"
#include "common/net/strand.h"
#include "common/rpc/options.h"
#include "router/admin/cluster_admin.h"
#include "router/api/generation.h"
#include "router/core/router_core.h"
#include "router/node_link.h"
#include "router/note_writer.h"

namespace tandem::router {

class RouterService : public GenerationBackend, public ClusterAdmin {
 public:
  struct Options {
    std::vector<net::HostPort> prefill;
    std::vector<net::HostPort> decode;
    RouterConfig core;
    rpc::Options rpc;
    TokenCount model_context{0};  // what the model can; nodes may take less
    std::string name = "router";
  };

  // `registry` gets the metrics of fail-overs; it must outlive the service.
  RouterService(net::IoThreads& io, const net::Strand& strand, metrics::Registry& registry,
                Options options);
  ~RouterService() override;

  // Dials the nodes.
  void Start();
  // Takes no more requests. Those unfinished go on for `grace`, then CancelAll(). `stopped` runs
  // when none is left.
  void Stop(Duration grace, net::Closure stopped);
  // Ends every unfinished request as unavailable.
  void CancelAll();
  // Closes the connections to the nodes.
  void Disconnect();

  StatusOr<handoff::RequestId> Submit(Generation generation,
                                      std::shared_ptr<GenerationSink> sink) override;
  void ClientGone(handoff::RequestId request) override;
  void StopMatched(handoff::RequestId request, Position position) override;
  void Consumed(handoff::RequestId request, std::int32_t positions) override;
  Status Admission() const override { return core_.Admission(); }
  Duration RetryAfter() const override { return core_.RetryAfter(SteadyNow()); }
  bool ready() const override { return core_.ready(); }
  TokenCount context() const override;
  std::string HealthJson() const override;
  std::string MetricsText() const override;

  std::vector<NodeStatus> NodeStatuses() const override;
  Status DrainNode(std::string_view name, Duration budget) override;

 private:
  // One configured address, and what its node said.
  struct Node {
    handoff::Role role;
    std::unique_ptr<NodeLink> link;
    std::optional<handoff::NodeId> id;  // while connected
    handoff::Hello hello;               // the last one
    bool drained = false;               // that node ended in order
  };

  void AddNode(handoff::Role role, const net::HostPort& address);
  void OnHello(Node& node, const handoff::Hello& hello);
  // The field that does not fit, and why.
  std::optional<handoff::HelloRefused> Misfit(const Node& node, const handoff::Hello& hello) const;
  void Join(Node& node, const handoff::Hello& hello);
  void OnLost(Node& node, handoff::Loss loss);
  void UpdateContexts();
  std::vector<ClassHashes> HashPrompt(const TokenIds& tokens) const;

  void Run();
  void Do(Send& action);
  void Do(Deliver& action);
  void Do(Finished& action);
  void Do(Readiness& action);
  void Do(Note& action) { notes_.Write(action); }
  void ArmTimer();

  net::IoThreads& io_;
  net::Strand strand_;
  const Options options_;
  RouterCore core_;
  NoteWriter notes_;
  net::Timer timer_;
  net::Timer stop_timer_;
  handoff::NodeDirectory directory_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::optional<Hash128> model_instance_;  // of the first node that came
  // The largest context of each role's nodes; the last known one while none is connected.
  std::map<handoff::Role, TokenCount> contexts_;
  absl::flat_hash_map<handoff::RequestId, std::shared_ptr<GenerationSink>> sinks_;
  std::uint64_t last_number_ = 0;
  Actions actions_;
  bool running_ = false;
  bool stopping_ = false;
  net::Closure stopped_;
};

}  // namespace tandem::router
