// Prefill and decode nodes with a real engine on a generated model, in one process, over each
// transport: the tokens of the single-process engine, and nothing left behind whatever happens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/engine/model_runner.h"
#include "decode_node/decode_service.h"
#include "kv_transfer/loopback/hub.h"
#include "prefill_node/prefill_service.h"
#include "tests/integration/engine/rig.h"
#include "tests/integration/nodes/small_model.h"
#include "tests/integration/nodes/test_router.h"

namespace tandem::testing {
namespace {

using decode_node::DecodeService;
using prefill_node::PrefillService;
using Phase = TestRouter::Phase;
using transfer::Transport;

constexpr std::int32_t kContext = kSmallContext;
constexpr kv::BlockCount kBlocks{160};

std::vector<RigRequest> MakeRequests(int count, std::uint64_t seed) {
  SplitMix64 random(seed);
  const auto vocab = static_cast<std::uint64_t>(SmallModel().model->config().vocab_size);
  std::vector<RigRequest> requests(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    RigRequest& request = requests[i];
    request.prompt.resize(1 + random.Below(120));
    for (TokenId& token : request.prompt) {
      token = TokenId(static_cast<std::int32_t>(random.Below(vocab)));
    }
    request.params.temperature = i % 2 == 0 ? 0.0f : 0.9f;
    request.params.top_p = 0.95f;
    request.params.seed = random.Next();
    request.params.max_tokens = TokenCount(static_cast<std::int32_t>(1 + random.Below(30)));
  }
  return requests;
}

class NodesTest : public ::testing::TestWithParam<Transport> {
 protected:
  NodesTest() { rpc_.heartbeat_every = std::chrono::milliseconds(20); }

  void AddPrefill(TokenCount step_tokens = TokenCount(64)) {
    PrefillService::Options options;
    options.name = fmt::format("prefill-{}", prefill_.size());
    options.num_blocks = kBlocks;
    options.max_context = TokenCount(kContext);
    options.step_tokens = step_tokens;
    options.threads = 1;
    options.hub = hub_;
    options.rpc = rpc_;
    auto service = PrefillService::Start(*SmallModel().model, SmallModel().instance, options);
    ASSERT_TRUE(service.ok()) << service.status();
    prefill_.push_back(*std::move(service));
  }
  void AddDecode() {
    DecodeService::Options options;
    options.name = fmt::format("decode-{}", decode_.size());
    options.num_blocks = kBlocks;
    options.max_context = TokenCount(kContext);
    options.threads = 1;
    options.transport = GetParam();
    options.net_device = GetParam() == Transport::kUcxTcp ? "lo" : "";
    options.hub = hub_;
    options.rpc = rpc_;
    auto service = DecodeService::Start(*SmallModel().model, SmallModel().instance, options);
    ASSERT_TRUE(service.ok()) << service.status();
    decode_.push_back(*std::move(service));
  }
  void StartPairs(int num_prefill, int num_decode) {
    for (int i = 0; i < num_prefill; ++i) ASSERT_NO_FATAL_FAILURE(AddPrefill());
    for (int i = 0; i < num_decode; ++i) ASSERT_NO_FATAL_FAILURE(AddDecode());
    router_ = std::make_unique<TestRouter>(rpc_);
    Connect(*router_);
  }
  void Connect(TestRouter& router) {
    std::vector<net::HostPort> prefill, decode;
    for (const auto& node : prefill_) prefill.push_back(node->address());
    for (const auto& node : decode_) decode.push_back(node->address());
    router.Connect(prefill, decode);
  }
  // What the single-process engine says to `requests`.
  std::vector<RigResult> Expected(const std::vector<RigRequest>& requests) {
    EngineRig rig(*SmallModel().model, {});
    return rig.Run(requests, {});
  }
  void ExpectSameTokens(const std::vector<RigRequest>& requests) {
    const std::vector<RigResult> expected = Expected(requests);
    std::vector<std::uint64_t> numbers;
    for (const RigRequest& r : requests) numbers.push_back(router_->Send(r.prompt, r.params));
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const TestRouter::Outcome outcome = router_->Await(numbers[i]);
      EXPECT_FALSE(outcome.failure.has_value()) << handoff::ToString(*outcome.failure);
      EXPECT_EQ(outcome.tokens, expected[i].tokens) << "request " << i;
      EXPECT_FALSE(outcome.repeats_differ);
      EXPECT_EQ(outcome.finish, sequence::FinishReason::kLength);
    }
  }

  rpc::Options rpc_;
  std::shared_ptr<transfer::loopback::Hub> hub_ = transfer::loopback::MakeHub();
  // Sources go before the sinks they write to.
  std::vector<std::unique_ptr<DecodeService>> decode_;
  std::vector<std::unique_ptr<PrefillService>> prefill_;
  std::unique_ptr<TestRouter> router_;
};

TEST_P(NodesTest, TokensAreThoseOfTheSingleProcessEngine) {
  ASSERT_NO_FATAL_FAILURE(StartPairs(1, 1));
  const auto requests = MakeRequests(24, 1);
  ExpectSameTokens(requests);
  auto books = router_->AwaitIdle();
  EXPECT_GT(books["decode-0"]["joined"], 0);
  EXPECT_EQ(books["decode-0"]["corrupt"], 0);
  EXPECT_EQ(books["decode-0"]["rejected"], 0);
  EXPECT_GT(books["prefill-0"]["pushed_bytes"], 0);
}

TEST_P(NodesTest, PrefixHitsSkipComputingAndSendingAndChangeNothing) {
  ASSERT_NO_FATAL_FAILURE(StartPairs(1, 1));
  auto requests = MakeRequests(4, 2);
  for (RigRequest& request : requests) {
    request.prompt.resize(100, TokenId(7));
    request.params.max_tokens = TokenCount(8);
  }
  ExpectSameTokens(requests);
  auto before = router_->AwaitIdle();
  ExpectSameTokens(requests);
  auto after = router_->AwaitIdle();
  EXPECT_GE(after["prefill-0"]["cached_tokens"] - before["prefill-0"]["cached_tokens"], 4 * 96);
  EXPECT_GT(after["prefill-0"]["held_blocks"], before["prefill-0"]["held_blocks"]);
  EXPECT_LT(after["prefill-0"]["pushed_bytes"], 2 * before["prefill-0"]["pushed_bytes"]);
}

TEST_P(NodesTest, TwoOfEachGiveTheSameTokensAndAllWork) {
  ASSERT_NO_FATAL_FAILURE(StartPairs(2, 2));
  EXPECT_EQ(router_->NumericsClasses(), std::set{SmallModel().model->numerics_identity()});
  ExpectSameTokens(MakeRequests(32, 3));
  auto books = router_->AwaitIdle();
  for (const char* name : {"decode-0", "decode-1"}) EXPECT_GT(books[name]["joined"], 0) << name;
  for (const char* name : {"prefill-0", "prefill-1"}) EXPECT_GT(books[name]["joined"], 0) << name;
}

TEST_P(NodesTest, CancelInEachPhaseLeavesNothing) {
  ASSERT_NO_FATAL_FAILURE(StartPairs(1, 1));
  auto requests = MakeRequests(10, 4);
  std::vector<std::uint64_t> numbers;
  for (int round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i].params.max_tokens = TokenCount(200);
      const std::uint64_t number = router_->Send(requests[i].prompt, requests[i].params);
      router_->CancelAt(number, static_cast<Phase>(i % 5));
      numbers.push_back(number);
    }
  }
  for (const std::uint64_t number : numbers) {
    EXPECT_EQ(router_->Await(number).finish, sequence::FinishReason::kNone);
  }
  router_->AwaitIdle();
  // And the pair still works.
  ExpectSameTokens(MakeRequests(4, 5));
  router_->AwaitIdle();
}

TEST_P(NodesTest, LossOfTheRouterCancelsAllOfItsRequests) {
  ASSERT_NO_FATAL_FAILURE(StartPairs(1, 1));
  TestRouter other(rpc_);
  Connect(other);
  for (RigRequest& request : MakeRequests(12, 6)) {
    request.params.max_tokens = TokenCount(300);
    const std::uint64_t number = router_->Send(request.prompt, request.params);
    if (request.prompt.size() % 2 == 0) router_->Await(number, Phase::kFirstToken);
  }
  router_->Disconnect();
  other.AwaitIdle();
}

TEST_P(NodesTest, DrainFinishesWhatRunsAndTakesNothingNew) {
  ASSERT_NO_FATAL_FAILURE(StartPairs(1, 1));
  auto requests = MakeRequests(6, 7);
  for (RigRequest& request : requests) request.params.max_tokens = TokenCount(60);
  const auto expected = Expected(requests);
  std::vector<std::uint64_t> numbers;
  for (const RigRequest& r : requests) {
    numbers.push_back(router_->Send(r.prompt, r.params));
  }
  for (const std::uint64_t number : numbers) router_->Await(number, Phase::kTokens);
  Notification prefill_drained, decode_drained;
  prefill_[0]->WatchDrain({.begun = {}, .drained = [&] { prefill_drained.Notify(); }});
  decode_[0]->WatchDrain({.begun = {}, .drained = [&] { decode_drained.Notify(); }});
  prefill_[0]->BeginDrain(std::chrono::hours(1));
  decode_[0]->BeginDrain(std::chrono::hours(1));
  const std::uint64_t late = router_->Send(requests[0].prompt, requests[0].params);
  EXPECT_EQ(router_->Await(late).failure, handoff::Reason::kDraining);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(router_->Await(numbers[i]).tokens, expected[i].tokens);
  }
  prefill_drained.WaitForNotification();
  decode_drained.WaitForNotification();
}

TEST_P(NodesTest, SinkThatComesBackUnderItsNameIsUsedAgain) {
  ASSERT_NO_FATAL_FAILURE(StartPairs(1, 1));
  ExpectSameTokens(MakeRequests(3, 8));
  router_->AwaitIdle();
  router_.reset();
  decode_.clear();
  ASSERT_NO_FATAL_FAILURE(AddDecode());
  router_ = std::make_unique<TestRouter>(rpc_);
  Connect(*router_);
  ExpectSameTokens(MakeRequests(3, 9));
  router_->AwaitIdle();
}

std::size_t OpenDescriptors() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST_P(NodesTest, DescriptorsAreClosedAtTheEnd) {
  const auto whole_life = [&] {
    StartPairs(1, 1);
    ExpectSameTokens(MakeRequests(2, 10));
    router_.reset();
    prefill_.clear();
    decode_.clear();
  };
  whole_life();  // what libraries open once stays open
  const std::size_t before = OpenDescriptors();
  whole_life();
  EXPECT_EQ(OpenDescriptors(), before);
}

INSTANTIATE_TEST_SUITE_P(Transports, NodesTest,
                         ::testing::Values(Transport::kLoopback, Transport::kUcxShm,
                                           Transport::kUcxTcp),
                         [](const auto& info) {
                           std::string name(transfer::ToString(info.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tandem::testing
