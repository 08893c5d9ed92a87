// A PrefillCore with a router and two sinks, and what its events look like.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "prefill_node/core/prefill_core.h"
#include "tests/testing/core_actions.h"

namespace tandem::prefill_node {

using handoff::NodeId;
using handoff::PlacementKey;
using handoff::Reason;

inline constexpr NodeId kRouter{1}, kD1{2}, kD2{3};
inline const handoff::Incarnation kRouterLife{77};
inline Time At(std::int64_t ms) { return Time{} + std::chrono::milliseconds(ms); }

// One layer, blocks of 16 tokens; prompts of 20 tokens (2 blocks); sinks d1 and d2 are usable.
class PrefillCoreTest : public ::testing::Test {
 protected:
  static PrefillConfig Config() {
    PrefillConfig config;
    config.name = "p";
    config.incarnation = handoff::Incarnation(5);
    config.layout.num_layers = 1;
    config.layout.num_kv_heads = 1;
    config.layout.head_dim = 8;
    config.num_blocks = kv::BlockCount(20);
    config.max_context = TokenCount(320);
    return config;
  }
  void SetUp() override {
    handoff::Hello hello;
    hello.incarnation = kRouterLife;
    core_.RouterConnected(now_, kRouter, hello, out_);
    ConnectSink(kD1, "d1");
    ConnectSink(kD2, "d2");
    out_.clear();
  }
  void ConnectSink(NodeId id, const std::string& name) {
    handoff::Hello hello;
    hello.name = name;
    core_.SinkConnected(now_, id, hello, out_);
    const std::uint64_t nonce = Last<StartProbe>()->nonce;
    core_.ProbeWritten(now_, id, nonce, ByteCount(1), 1, out_);
    core_.OnMessage(now_, id, handoff::Probed{nonce, true}, out_);
  }
  PlacementKey Key(std::uint32_t placement, std::uint64_t request = 1) const {
    return {{kRouterLife, request}, handoff::Attempt(1), handoff::Placement(placement)};
  }
  void Submit(std::int32_t max_tokens = 5, std::uint64_t request = 1) {
    handoff::Prefill m;
    m.request = {kRouterLife, request};
    m.attempt = handoff::Attempt(1);
    m.tokens = std::make_shared<TokenIds>(TokenIds(20, TokenId(1)));
    m.prompt_tokens = TokenCount(20);
    m.params.max_tokens = TokenCount(max_tokens);
    m.params.stop_token_ids = {TokenId(9)};
    m.ranked_sinks = {"d1", "d2"};
    core_.OnMessage(now_, kRouter, m, out_);
    if (const StartStep* start = Last<StartStep>()) step_ = *start;
  }
  void AnswerReserve(NodeId sink, std::uint32_t placement) {
    handoff::Reserved m;
    m.key = Key(placement);
    m.blocks = {kv::BlockId(3), kv::BlockId(4), kv::BlockId(5)};
    m.lease = handoff::kLease;
    core_.OnMessage(now_, sink, m, out_);
  }
  void FinishStep(TokenId token = TokenId(8)) {
    std::vector<sequence::SampledToken> results;
    for (const auto& slice : step_.batch->slices) results.push_back({slice.tag, token, 0});
    core_.StepDone(now_, step_.step, results, std::chrono::milliseconds(1), out_);
  }
  void Fence() {
    const Push push = *Last<Push>();
    core_.PushFenced(now_, push.ticket, push.bytes, 1, out_);
  }
  // Up to HandOff on d1.
  void HandOffOne() {
    Submit();
    AnswerReserve(kD1, 1);
    core_.OnMessage(now_, kRouter, handoff::PlacementNoted{Key(1)}, out_);
    FinishStep();
    Fence();
  }
  template <typename A>
  const A* Last() const {
    return testing::LastAction<A>(out_);
  }
  template <typename M>
  const M* Sent(NodeId to) const {
    return testing::LastSent<M>(out_, to);
  }
  void ExpectNothingLeft() {
    const PrefillStats s = core_.stats();
    EXPECT_EQ(s.tasks + s.placements + s.draining + s.leases + s.waiting_room, 0);
    EXPECT_EQ(s.blocks.used, kv::BlockCount(0));
    EXPECT_EQ(s.outstanding_bytes, 0);
  }

  Time now_ = At(1000);
  Actions out_;
  StartStep step_;
  PrefillCore core_{Config()};
};

}  // namespace tandem::prefill_node
