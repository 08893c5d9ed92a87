#include "deploy/sim/router_process.h"

#include <fmt/format.h>

#include <utility>

namespace tandem::sim {

using handoff::NodeId;

RouterProcess::RouterProcess(World& world, Network& network, const router::RouterConfig& config,
                             Workload& workload)
    : Process(world, network, handoff::Role::kRouter, "router", config.incarnation),
      config_(config),
      workload_(workload),
      core_(config) {}

handoff::Hello RouterProcess::MakeHello() const {
  handoff::Hello hello;
  hello.name = name();
  hello.incarnation = config_.incarnation;
  return hello;
}

void RouterProcess::SetNodes(const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, handoff::Incarnation>> peers;
  for (const std::string& name : names) peers.emplace_back(name, handoff::Incarnation());
  SetDialed(peers);
}

// --- nodes

void RouterProcess::Connected(NodeId peer, const handoff::Hello& hello, Process&) {
  nodes_[hello.name] = peer;
  rules_.Connected(peer, hello.name);
  Do([&](auto& out) { core_.NodeConnected(now(), peer, hello, out); });
}

void RouterProcess::Lost(NodeId peer, handoff::Role, handoff::Loss loss) {
  std::erase_if(nodes_, [&](const auto& entry) { return entry.second == peer; });
  rules_.Lost(peer);
  Do([&](auto& out) { core_.NodeLost(now(), peer, loss, out); });
}

void RouterProcess::Received(NodeId from, handoff::Message message) {
  if (const auto* m = std::get_if<handoff::Tokens>(&message)) voice_ = m->key;
  if (const auto* m = std::get_if<handoff::FirstToken>(&message)) {
    voice_ = {m->request, m->attempt, handoff::Placement(0)};
    workload_.OnComputed(m->request.number, m->times.prefill);
  }
  rules_.Received(now(), from, message);
  Do([&](auto& out) { core_.OnMessage(now(), from, std::move(message), out); });
}

bool RouterProcess::Drain(const std::string& name) {
  auto it = nodes_.find(name);
  if (it == nodes_.end()) return false;
  world_.loop.Execute(*this, [this, node = it->second] {
    Do([&](auto& out) { core_.DrainNode(now(), node, std::chrono::seconds(5), out); });
  });
  return true;
}

// --- clients

void RouterProcess::Submit(std::uint64_t number, Duration budget, router::RequestSpec spec,
                           const std::function<void(Status)>& refused) {
  world_.loop.Execute(*this, [&] {
    spec.id = IdOf(number);
    spec.deadline = Deadline::After(now(), budget);
    Status status;
    Do([&](auto& out) { status = core_.Submit(now(), std::move(spec), out); });
    if (!status.ok()) refused(status);
  });
}

void RouterProcess::ClientGone(std::uint64_t number) {
  world_.loop.Execute(*this, [this, number] {
    Do([&](auto& out) { core_.ClientGone(now(), IdOf(number), out); });
  });
}

void RouterProcess::StopMatched(std::uint64_t number, Position position) {
  world_.loop.Execute(*this, [this, number, position] {
    stopping_ = true;
    Do([&](auto& out) { core_.StopMatched(now(), IdOf(number), position, out); });
    stopping_ = false;
  });
}

void RouterProcess::ClientConsumed(std::uint64_t number, std::int32_t positions) {
  world_.loop.Execute(*this, [this, number, positions] {
    Do([&](auto& out) { core_.ClientConsumed(now(), IdOf(number), positions, out); });
  });
}

// --- time and actions

Time RouterProcess::NextDeadline() const { return core_.NextDeadline(); }

void RouterProcess::OnTime() {
  Do([&](auto& out) { core_.OnTime(now(), out); });
}

void RouterProcess::Act(router::Actions& actions) {
  for (router::Action& action : actions) {
    FollowRules(action);
    if (auto* a = std::get_if<handoff::Send>(&action)) {
      Send(a->to, std::move(a->message));
    } else if (auto* a = std::get_if<router::Deliver>(&action)) {
      workload_.OnDeliver(*a, voice_);
    } else if (auto* a = std::get_if<router::Finished>(&action)) {
      workload_.OnFinished(*a);
    }
  }
  if (std::string broken = rules_.Check(); !broken.empty()) Broken(broken);
  ArmTimer();
}

// --- what must hold

void RouterProcess::FollowRules(const router::Action& action) {
  if (const auto* a = std::get_if<handoff::Send>(&action)) {
    rules_.Sent(now(), a->to, a->message);
  } else if (const auto* a = std::get_if<router::Finished>(&action)) {
    rules_.Finished(a->request, stopping_ || !a->status.ok());
  }
}

void RouterProcess::CheckAfterEvent() {
  const router::RouterStats s = core_.stats();
  if (s.requests > config_.requests_max || s.queued > s.requests) {
    Broken("more requests than requests_max");
  }
  // Nothing in this network loses a position without ending its connection.
  if (s.gaps > 0) Broken("a position is missing from a stream whose connection stands");
}

std::string RouterProcess::LeftInBooks() const {
  const router::RouterStats s = core_.stats();
  const bool timer = core_.NextDeadline() != kNever;
  if (s.requests == 0 && s.queued == 0 && !timer) return "";
  return fmt::format("router: {} requests, {} queued, timer {}", s.requests, s.queued,
                     timer ? "set" : "unset");
}

}  // namespace tandem::sim
