// A prefill node in a process of its own, stopped and killed in the middle of a hand-off over
// shared memory: the decode node keeps the blocks it may still write, until that process is gone.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "common/engine/model_runner.h"
#include "common/worker/loaded_model.h"
#include "decode_node/decode_service.h"
#include "tests/integration/nodes/node_process.h"
#include "tests/integration/nodes/test_router.h"
#include "tests/testing/model_generator.h"
#include "tests/testing/paths.h"

namespace tandem::testing {
namespace {

class StoppedWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GenerateModel(ModelSpec()).WriteGguf(folder_.File("model.gguf"));
    auto model = worker::LoadModel({.path = folder_.File("model.gguf"), .threads = 1});
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    rpc_.heartbeat_every = std::chrono::milliseconds(50);
    decode_node::DecodeService::Options options;
    options.name = "decode-0";
    options.num_blocks = kv::BlockCount(160);
    options.max_context = TokenCount(512);
    options.threads = 1;
    options.rpc = rpc_;
    auto decode = decode_node::DecodeService::Start(*model_.model, model_.instance, options);
    ASSERT_TRUE(decode.ok()) << decode.status();
    decode_ = *std::move(decode);
    auto prefill = NodeProcess::Start(
        {TANDEM_PREFILL, "--model", folder_.File("model.gguf"), "--name", "prefill-0", "--listen",
         "127.0.0.1:0", "--kv-memory", "4M", "--threads", "1", "--log-level", "warning",
         "--parent-pid", std::to_string(::getpid())},
        folder_.File("port"));
    ASSERT_TRUE(prefill.ok()) << prefill.status();
    prefill_ = *std::move(prefill);
    router_ = std::make_unique<TestRouter>(rpc_);
    router_->Connect({prefill_->address()}, {decode_->address()});
    router_->HoldPlacements();
    sequence::SamplingParams params;
    params.max_tokens = TokenCount(50);
    const std::uint64_t request = router_->Send(TokenIds(100, TokenId(9)), params);
    router_->Await(request, TestRouter::Phase::kPlaced);
  }

  TempDir folder_;
  worker::LoadedModel model_;
  rpc::Options rpc_;
  std::unique_ptr<decode_node::DecodeService> decode_;
  std::unique_ptr<NodeProcess> prefill_;
  std::unique_ptr<TestRouter> router_;
};

TEST_F(StoppedWriterTest, KilledWriterGivesItsBlocksBack) {
  prefill_->Signal(SIGKILL);
  router_->AwaitIdle();
}

TEST_F(StoppedWriterTest, StoppedWriterHoldsItsBlocksUntilItIsGone) {
  prefill_->Signal(SIGSTOP);
  // The connection ends for silence, which proves nothing about memory.
  router_->AwaitAboveZero("decode-0", "quarantined_reservations");
  prefill_->Signal(SIGKILL);
  router_->AwaitIdle();
}

}  // namespace
}  // namespace tandem::testing
