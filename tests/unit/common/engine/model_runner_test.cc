#include "common/engine/model_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "common/device/cpu/cpu_device.h"
#include "tests/testing/model_generator.h"
#include "tests/testing/paths.h"

namespace tandem::engine {
namespace {

class LayerRecorder final : public StepObserver {
 public:
  void LayerComputed(kv::Layer layer) override {
    layers.push_back(layer.value());
    thread_ok = thread_ok && std::this_thread::get_id() == thread;
  }
  std::vector<int> layers;
  std::thread::id thread = std::this_thread::get_id();
  bool thread_ok = true;
};

class ModelRunnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::GenerateModel(testing::ModelSpec::Of(testing::Arch::kLlama))
        .WriteGguf(folder_.File("model.gguf"));
    auto model = model::Model::Load(folder_.File("model.gguf"),
                                    {.numerics = "scalar-f32", .threads = 1, .progress = nullptr});
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    arena_.emplace(*KvArena::Allocate(KvLayoutOf(*model_), kv::BlockCount(8), device_));
    auto runner = ModelRunner::Create(
        *model_, *arena_, {.max_tokens_per_step = TokenCount(40), .max_slices = 2, .threads = 2});
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
  }

  sequence::Slice SliceOf(const TokenIds& tokens, int first = 0) {
    return {.tag = sequence::SliceTag(7),
            .first = TokenIndex(first),
            .tokens = tokens,
            .block_table = table_,
            .sample = &greedy_};
  }
  absl::StatusCode CodeOf(sequence::Slice slice) {
    sequence::Batch batch;
    batch.slices.push_back(slice);
    return runner_->Step(batch).status().code();
  }

  testing::TempDir folder_;
  device::CpuDevice device_;
  std::unique_ptr<model::Model> model_;
  std::optional<KvArena> arena_;
  std::unique_ptr<ModelRunner> runner_;
  std::vector<kv::BlockId> table_ = {kv::BlockId(3), kv::BlockId(1), kv::BlockId(6)};
  sequence::SamplingParams greedy_{.temperature = 0, .stop_token_ids = {}};
  TokenIds tokens_ = TokenIds(20, TokenId(5));
};

TEST_F(ModelRunnerTest, TellsEachLayerOnceInOrderOnTheCallersThread) {
  LayerRecorder recorder;
  sequence::Batch batch;
  batch.slices.push_back(SliceOf(tokens_));
  ASSERT_TRUE(runner_->Step(batch, recorder).ok());
  EXPECT_EQ(recorder.layers, (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(recorder.thread_ok);
}

TEST_F(ModelRunnerTest, SamplesOnlyWhereASliceAsks) {
  sequence::Batch batch;
  batch.slices.push_back(SliceOf(tokens_));
  auto sampled = runner_->Step(batch);
  ASSERT_TRUE(sampled.ok());
  ASSERT_EQ(sampled->size(), 1u);
  EXPECT_EQ((*sampled)[0].tag, sequence::SliceTag(7));
  EXPECT_LE((*sampled)[0].logprob, 0);
  batch.slices[0].sample = nullptr;
  sampled = runner_->Step(batch);
  ASSERT_TRUE(sampled.ok());
  EXPECT_TRUE(sampled->empty());
}

TEST_F(ModelRunnerTest, CountsTheStagesOfAStepOnEveryThread) {
  StageTimes times(2);
  runner_->SetStageTimes(&times);
  sequence::Batch batch;
  batch.slices.push_back(SliceOf(tokens_));
  ASSERT_TRUE(runner_->Step(batch).ok());
  for (int thread = 0; thread < 2; ++thread) {
    for (const Stage stage : {Stage::kEmbed, Stage::kNorm, Stage::kQkv, Stage::kStoreKv,
                              Stage::kAttention, Stage::kOutput, Stage::kGateUp, Stage::kDown,
                              Stage::kHead, Stage::kSample, Stage::kWait}) {
      EXPECT_GT(times.Of(thread, stage).count(), 0) << thread << " " << Name(stage);
    }
  }
  times.Reset();
  runner_->SetStageTimes(nullptr);
  ASSERT_TRUE(runner_->Step(batch).ok());
  EXPECT_EQ(times.Of(0, Stage::kQkv).count(), 0);
}

TEST_F(ModelRunnerTest, ABatchOfNothingIsFine) {
  auto sampled = runner_->Step(sequence::Batch{});
  ASSERT_TRUE(sampled.ok());
  EXPECT_TRUE(sampled->empty());
}

TEST_F(ModelRunnerTest, RefusesABadBatchAndGoesOn) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const TokenIds unknown = {TokenId(1), TokenId(model_->config().vocab_size)};
  const TokenIds negative = {TokenId(-1)};
  EXPECT_EQ(CodeOf(SliceOf(unknown)), invalid);
  EXPECT_EQ(CodeOf(SliceOf(negative)), invalid);
  EXPECT_EQ(CodeOf(SliceOf({})), invalid);
  EXPECT_EQ(CodeOf(SliceOf(tokens_, -1)), invalid);
  EXPECT_EQ(CodeOf(SliceOf(tokens_, 120)), invalid);  // the arena holds 128 tokens
  EXPECT_EQ(CodeOf(SliceOf(tokens_, 40)), invalid);   // three blocks hold 48
  EXPECT_EQ(CodeOf(SliceOf(TokenIds(41, TokenId(5)))), invalid);
  sequence::Slice stray = SliceOf(tokens_);
  const std::vector<kv::BlockId> outside = {kv::BlockId(0), kv::BlockId(8)};
  stray.block_table = outside;
  EXPECT_EQ(CodeOf(stray), invalid);
  sequence::Batch batch;
  for (int i = 0; i < 3; ++i) batch.slices.push_back(SliceOf(negative));
  EXPECT_EQ(runner_->Step(batch).status().code(), invalid);
  EXPECT_EQ(CodeOf(SliceOf(tokens_)), absl::StatusCode::kOk);
}

TEST_F(ModelRunnerTest, RefusesAnArenaOfAnotherLayoutOrOutOfReach) {
  kv::KvLayout layout = KvLayoutOf(*model_);
  layout.num_layers += 1;
  auto other = KvArena::Allocate(layout, kv::BlockCount(2), device_);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(ModelRunner::Create(*model_, *other, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  auto gpu = KvArena::Over(KvLayoutOf(*model_), kv::BlockCount(2),
                           {reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40),
                            ByteCount(1 << 30), device::MemoryType::kCuda, 0});
  ASSERT_TRUE(gpu.ok());
  EXPECT_EQ(ModelRunner::Create(*model_, *gpu, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ModelRunnerTest, RefusesOptionsOutOfRange) {
  EXPECT_FALSE(ModelRunner::Create(*model_, *arena_, {.max_tokens_per_step = TokenCount(0)}).ok());
  EXPECT_FALSE(ModelRunner::Create(*model_, *arena_, {.max_slices = 0}).ok());
  EXPECT_FALSE(ModelRunner::Create(*model_, *arena_, {.threads = -1}).ok());
}

}  // namespace
}  // namespace tandem::engine
