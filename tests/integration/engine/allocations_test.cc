// A step of the engine takes no memory: prompts and generation, greedy and sampled, on two threads.
// This program counts every call of operator new, whatever thread makes it.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "common/base/cpu_features.h"
#include "common/device/cpu/cpu_device.h"
#include "common/engine/model_runner.h"
#include "common/ops/numerics_class.h"
#include "tests/testing/model_generator.h"
#include "tests/testing/paths.h"

namespace {
std::atomic<std::int64_t> allocations{0};

void* Counted(std::size_t size, std::size_t alignment) {
  ++allocations;
  void* p = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (p == nullptr) std::abort();
  return p;
}
}  // namespace

// Not inlined: compilers would take free() for the wrong partner of operator new.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return Counted(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new[](std::size_t size) {
  return Counted(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return Counted(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::align_val_t alignment) {
  return Counted(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}

namespace tandem::testing {
namespace {

constexpr int kSequences = 6;
constexpr int kPrompt = 70;  // more than a chunk of keys
constexpr int kGenerated = 8;
constexpr int kBlocks = 8;  // of a sequence

class Steps {
 public:
  Steps(const model::Model& model, engine::ModelRunner& runner)
      : vocab_size_(model.config().vocab_size), runner_(runner) {
    params_[1] = {.temperature = 0.8f, .seed = 1, .stop_token_ids = {}};
    params_[2] = {.temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .seed = 2, .stop_token_ids = {}};
    params_[0].temperature = 0;
    for (int s = 0; s < kSequences; ++s) {
      for (int i = 0; i < kPrompt; ++i)
        tokens_[s].push_back(TokenId((s * 31 + i * 7) % vocab_size_));
      tokens_[s].resize(kPrompt + kGenerated);
      for (int i = 0; i < kBlocks; ++i) tables_[s].push_back(kv::BlockId(s * kBlocks + i));
    }
    batch_.slices.reserve(kSequences);
  }

  // Prompts of all sequences, then their generated tokens one by one.
  void Run() {
    Step(0, kPrompt);
    for (int i = 0; i + 1 < kGenerated; ++i) Step(kPrompt + i, 1);
  }

 private:
  void Step(int first, int count) {
    batch_.slices.clear();
    for (int s = 0; s < kSequences; ++s) {
      batch_.slices.push_back({.tag = sequence::SliceTag(static_cast<std::uint64_t>(s)),
                               .first = TokenIndex(first),
                               .tokens = std::span(tokens_[s]).subspan(first, count),
                               .block_table = tables_[s],
                               .sample = &params_[s % 3],
                               .position = Position(first + count - kPrompt)});
    }
    const auto sampled = runner_.Step(batch_);
    if (!sampled.ok()) std::abort();
    for (const auto& token : *sampled) tokens_[token.tag.value()][first + count] = token.token;
  }

  std::int32_t vocab_size_;
  engine::ModelRunner& runner_;
  sequence::SamplingParams params_[3];
  TokenIds tokens_[kSequences];
  std::vector<kv::BlockId> tables_[kSequences];
  sequence::Batch batch_;
};

TEST(AllocationsTest, NoStepTakesMemory) {
  const TempDir folder;
  ModelSpec spec = ModelSpec::Of(Arch::kQwen3);
  spec.layers = 2;
  const TestModel made = GenerateModel(spec, {.seed = 4, .dtype = formats::DType::kQ4_1});
  made.WriteGguf(folder.File("model.gguf"));
  for (ops::NumericsClass numerics : ops::SupportedClasses(DetectCpuFeatures())) {
    SCOPED_TRACE(ops::Name(numerics));
    auto model = model::Model::Load(
        folder.File("model.gguf"),
        {.numerics = std::string(ops::Name(numerics)), .threads = 2, .progress = nullptr});
    ASSERT_TRUE(model.ok()) << model.status();
    device::CpuDevice device;
    auto arena = engine::KvArena::Allocate(engine::KvLayoutOf(**model),
                                           kv::BlockCount(kSequences * kBlocks), device);
    ASSERT_TRUE(arena.ok()) << arena.status();
    auto runner = engine::ModelRunner::Create(
        **model, *arena,
        {.max_tokens_per_step = TokenCount(512), .max_slices = kSequences, .threads = 2});
    ASSERT_TRUE(runner.ok()) << runner.status();
    Steps steps(**model, **runner);
    EXPECT_GT(allocations, 0);  // the counter counts
    const std::int64_t before = allocations;
    steps.Run();
    EXPECT_EQ(allocations - before, 0);
  }
}

}  // namespace
}  // namespace tandem::testing
