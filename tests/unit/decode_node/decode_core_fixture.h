// A DecodeCore with a router and a source, and what its events look like.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "decode_node/core/decode_core.h"
#include "tests/testing/core_actions.h"

namespace tandem::decode_node {

using handoff::NodeId;
using handoff::PlacementKey;
using handoff::Proof;
using handoff::Reason;

inline constexpr NodeId kRouter{1}, kSource{2};
inline const handoff::Incarnation kRouterLife{77};
inline Time At(std::int64_t ms) { return Time{} + std::chrono::milliseconds(ms); }

// One layer, blocks of 16 tokens, 10 blocks; prompts of 20 tokens (2 blocks).
class DecodeCoreTest : public ::testing::Test {
 protected:
  DecodeCore& core() { return *core_ptr_; }
  static DecodeConfig Config() {
    DecodeConfig config;
    config.name = "d";
    config.incarnation = handoff::Incarnation(5);
    config.numerics = "n";
    config.layout.num_layers = 1;
    config.layout.num_kv_heads = 1;
    config.layout.head_dim = 8;
    config.num_blocks = kv::BlockCount(10);
    config.max_context = TokenCount(160);
    return config;
  }
  void Connect(Proof proof = Proof::kWriter) {
    handoff::Hello hello;
    hello.incarnation = kRouterLife;
    core().RouterConnected(now_, kRouter, hello, out_);
    hello.numerics = "n";
    core().SourceConnected(now_, kSource, hello, proof, out_);
  }
  PlacementKey Key(std::uint64_t request, std::uint32_t placement = 1) const {
    return {{kRouterLife, request}, handoff::Attempt(1), handoff::Placement(placement)};
  }
  void Reserve(const PlacementKey& key) {
    handoff::Reserve m;
    m.key = key;
    m.tokens = TokenCount(20);
    m.headroom = TokenCount(12);
    core().OnMessage(now_, kSource, m, out_);
  }
  VerifyTicket Announce(const PlacementKey& key) {
    handoff::LayerDone m;
    m.key = key;
    m.num_blocks = 2;
    m.num_tokens = 20;
    m.bytes = ByteCount(2 * Config().layout.block_bytes().value());
    core().OnMessage(now_, kSource, m, out_);
    const Verify* verify = Last<Verify>();
    return verify != nullptr ? verify->ticket : VerifyTicket(0);
  }
  void HandOff(const PlacementKey& key, std::int32_t max_tokens = 4) {
    handoff::HandOff m;
    m.key = key;
    m.prompt_tokens = TokenCount(20);
    m.tokens = std::make_shared<TokenIds>(TokenIds(21, TokenId(7)));
    m.params.max_tokens = TokenCount(max_tokens);
    m.total_bytes = ByteCount(2 * Config().layout.block_bytes().value());
    m.total_layer_blocks = 2;
    core().OnMessage(now_, kSource, m, out_);
  }
  void JoinOne(const PlacementKey& key, std::int32_t max_tokens = 4) {
    Reserve(key);
    core().LayerVerified(now_, Announce(key), true, out_);
    HandOff(key, max_tokens);
  }
  void FinishStep() {
    const StartStep* start = Last<StartStep>();
    ASSERT_NE(start, nullptr);
    const StartStep step = *start;
    std::vector<sequence::SampledToken> results;
    for (const auto& slice : step.batch->slices) results.push_back({slice.tag, TokenId(8), 0});
    out_.clear();
    core().StepDone(now_, step.step, results, std::chrono::milliseconds(1), out_);
  }
  template <typename A>
  const A* Last() const {
    return testing::LastAction<A>(out_);
  }
  template <typename M>
  const M* Sent() const {
    return testing::LastSent<M>(out_);
  }

  Time now_ = At(1000);
  Actions out_;
  DecodeConfig config_ = Config();
  std::unique_ptr<DecodeCore> core_ptr_ = std::make_unique<DecodeCore>(config_);
};

}  // namespace tandem::decode_node
