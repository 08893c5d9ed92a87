// The simulated router with its clients: submits a seeded workload and compares what comes out with
// the reference stream, position by position.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "deploy/sim/simulation.h"
#include "deploy/sim/world.h"
#include "router/core/router_core.h"

namespace tandem::sim {

class RouterProcess {
 public:
  RouterProcess(World& world, handoff::NodeId id, const SimOptions& options,
                const router::RouterConfig& config, const Hash128& model_instance);

  handoff::Hello MakeHello() const;
  void ConnectNode(handoff::NodeId node, const handoff::Hello& hello);
  // Draws the requests and schedules them from now on.
  void StartWorkload();

  bool finished() const { return started_ == options_.requests && clients_.empty(); }
  router::RouterCore& core() { return core_; }
  std::int32_t done() const { return done_; }
  std::int32_t cancelled() const { return cancelled_; }
  void CheckBooks();

 private:
  struct Client {
    TokenIds expected;  // the whole stream
    std::int32_t received = 0;
    std::int32_t stop_at = -1;  // a stop string ends with this position
    bool gone = false;          // cancelled by the client
    bool stopped = false;
    bool slow = false;
  };
  // Gives the core an event and does what it asks for.
  void Do(const std::function<void(router::Actions&)>& event);
  void Act(router::Action& action);
  void OnDeliver(const router::Deliver& action);
  void OnFinished(const router::Finished& action);
  void Submit(std::uint64_t number);
  router::RequestSpec Draw(std::uint64_t number);
  void Broken(std::uint64_t number, const std::string& what);

  World& world_;
  const handoff::NodeId id_;
  const SimOptions options_;
  const router::RouterConfig config_;
  const Hash128 model_instance_;
  const Hash128 root_;
  router::RouterCore core_;
  Time timer_ = kNever;
  std::vector<TokenIds> prefixes_;  // that prompts share
  std::map<std::uint64_t, Client> clients_;
  std::int32_t started_ = 0;
  std::int32_t done_ = 0;
  std::int32_t cancelled_ = 0;
};

}  // namespace tandem::sim
