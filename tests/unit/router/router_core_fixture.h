// A RouterCore with nodes and requests played by the test, under a clock that the test sets.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "router/core/router_core.h"
#include "tests/testing/core_actions.h"

namespace tandem::router {

using handoff::NodeId;
using handoff::PlacementKey;
using handoff::Role;

inline constexpr NodeId kP1{1}, kP2{2}, kD1{11}, kD2{12};
inline constexpr handoff::Incarnation kLife{77};
inline Time At(std::int64_t ms) { return Time{} + std::chrono::milliseconds(ms); }

class RouterCoreTest : public ::testing::Test {
 protected:
  static RouterConfig Config() {
    RouterConfig config;
    config.incarnation = kLife;
    config.requests_max = 8;
    config.queued_max = 3;
    return config;
  }
  void Connect(NodeId id, Role role, const std::string& name) {
    handoff::Hello hello;
    hello.role = role;
    hello.name = name;
    hello.layout.num_layers = hello.layout.num_kv_heads = hello.layout.head_dim = 1;
    hello.capacity.num_blocks = kv::BlockCount(100);
    core_.NodeConnected(now_, id, hello, out_);
  }
  void Usable(NodeId prefill, std::vector<std::string> sinks) {
    handoff::Heartbeat heartbeat;
    heartbeat.usable_sinks = std::move(sinks);
    core_.OnMessage(now_, prefill, heartbeat, out_);
  }
  void ConnectAll() {
    Connect(kP1, Role::kPrefill, "p1");
    Connect(kP2, Role::kPrefill, "p2");
    Connect(kD1, Role::kDecode, "d1");
    Connect(kD2, Role::kDecode, "d2");
    Usable(kP1, {"d1", "d2"});
    Usable(kP2, {"d1", "d2"});
  }
  Status Submit(std::uint64_t number, Deadline deadline = {}, std::int32_t max_tokens = 1000) {
    RequestSpec spec;
    spec.id = {kLife, number};
    spec.tokens = std::make_shared<TokenIds>(TokenIds(20, TokenId(1)));
    spec.params.max_tokens = TokenCount(max_tokens);
    spec.deadline = deadline;
    return core_.Submit(now_, std::move(spec), out_);
  }
  std::vector<std::pair<NodeId, handoff::Prefill>> Prefills() const {
    std::vector<std::pair<NodeId, handoff::Prefill>> found;
    for (const Action& action : out_) {
      const Send* send = std::get_if<Send>(&action);
      if (send == nullptr) continue;
      if (auto* m = std::get_if<handoff::Prefill>(&send->message)) found.emplace_back(send->to, *m);
    }
    return found;
  }
  template <typename M>
  const M* Sent(NodeId to) const {
    return testing::LastSent<M>(out_, to);
  }
  // Attempt `attempt` of request `number`, placed on a decode node.
  handoff::PlacementKey Key(std::uint64_t number, std::uint32_t attempt,
                            std::uint32_t placement = 1) const {
    return {{kLife, number}, handoff::Attempt(attempt), handoff::Placement(placement)};
  }
  void Place(NodeId prefill, const handoff::PlacementKey& key, const std::string& sink) {
    core_.OnMessage(now_, prefill, handoff::Placed{key, sink}, out_);
  }
  // `count` tokens from `first`; the token at position p is 100 + p.
  void Speak(NodeId decode, const handoff::PlacementKey& key, std::int32_t first,
             std::int32_t count) {
    handoff::Tokens message{.key = key, .first = Position(first)};
    for (std::int32_t i = first; i < first + count; ++i) message.tokens.push_back(TokenId(100 + i));
    message.logprobs.resize(message.tokens.size());
    core_.OnMessage(now_, decode, message, out_);
  }
  void Lose(NodeId node, handoff::Loss loss = handoff::Loss::kDied) {
    core_.NodeLost(now_, node, loss, out_);
  }
  // Notes of one kind, in order.
  template <typename N>
  std::vector<N> Notes() const {
    std::vector<N> found;
    for (const Action& action : out_) {
      const Note* note = std::get_if<Note>(&action);
      if (note == nullptr) continue;
      if (const N* wanted = std::get_if<N>(note)) found.push_back(*wanted);
    }
    return found;
  }
  // The first action of one kind.
  template <typename A>
  const A* Did() const {
    for (const Action& action : out_) {
      if (auto* found = std::get_if<A>(&action)) return found;
    }
    return nullptr;
  }
  const Finished* End() const { return Did<Finished>(); }

  Time now_ = At(1000);
  Actions out_;
  RouterCore core_{Config()};
};

}  // namespace tandem::router
