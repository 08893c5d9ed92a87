// Prints what one engine does on this machine: prefill of 512 tokens, decode of 1 and of 8
// sequences.
//   engine_bench [MODEL] [THREADS] [NUMERICS]      defaults: SmolLM2 from the model cache, 2, auto
// Medians of five rounds. Run it alone on the machine: flock /tmp/bench.lock engine_bench; where
// others compute as well, under chrt -r 10 (root), or its barriers wait for their time slices.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/device/cpu/cpu_device.h"
#include "common/engine/model_runner.h"
#include "tests/testing/paths.h"

namespace tandem {
namespace {

constexpr int kRounds = 5;
constexpr int kPrompt = 512;
constexpr int kDecodePrompt = 128;
constexpr int kDecodeSteps = 64;

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(const model::Model& model, engine::KvArena& arena, engine::ModelRunner& runner)
      : model_(model), arena_(arena), runner_(runner) {}

  // Seconds of one prefill of `count` tokens of sequence `index`, at the front of its blocks.
  double Prefill(int index, int count) {
    TokenIds tokens;
    for (int i = 0; i < count; ++i) {
      tokens.push_back(TokenId((i * 7919 + index) % model_.config().vocab_size));
    }
    const auto table = Table(index);
    sequence::Batch batch;
    batch.slices.push_back(
        {.tag = sequence::SliceTag(0), .tokens = tokens, .block_table = table, .sample = &greedy_});
    const auto start = Clock::now();
    TANDEM_CHECK(runner_.Step(batch).ok());
    return SecondsSince(start);
  }

  // Seconds of kDecodeSteps steps of `sequences` sequences.
  double Decode(int sequences) {
    std::vector<TokenIds> next(static_cast<std::size_t>(sequences), TokenIds{TokenId(5)});
    std::vector<std::vector<kv::BlockId>> tables;
    for (int i = 0; i < sequences; ++i) {
      Prefill(i, kDecodePrompt);
      tables.push_back(Table(i));
    }
    const auto start = Clock::now();
    for (int step = 0; step < kDecodeSteps; ++step) {
      sequence::Batch batch;
      for (std::size_t i = 0; i < next.size(); ++i) {
        batch.slices.push_back({.tag = sequence::SliceTag(i),
                                .first = TokenIndex(kDecodePrompt + step),
                                .tokens = next[i],
                                .block_table = tables[i],
                                .sample = &greedy_,
                                .position = Position(step)});
      }
      auto sampled = runner_.Step(batch);
      TANDEM_CHECK(sampled.ok());
      for (const auto& token : *sampled) next[token.tag.value()] = {token.token};
    }
    return SecondsSince(start);
  }

 private:
  std::vector<kv::BlockId> Table(int index) const {
    const int blocks = (kPrompt + kDecodeSteps) / arena_.layout().block_size;
    std::vector<kv::BlockId> table;
    for (int i = 0; i < blocks; ++i) table.push_back(kv::BlockId(index * blocks + i));
    return table;
  }

  const model::Model& model_;
  engine::KvArena& arena_;
  engine::ModelRunner& runner_;
  sequence::SamplingParams greedy_{.temperature = 0, .stop_token_ids = {}};
};

int Main(const std::vector<std::string>& args) {
  const auto cached = testing::SmolLm2Path();
  if (args.empty() && !cached) {
    fmt::print(stderr, "engine_bench: no model: give its path, or run deploy/quickstart once\n");
    return 1;
  }
  const std::string path = args.empty() ? *cached : args[0];
  const int threads = args.size() > 1 ? std::atoi(args[1].c_str()) : 2;
  const std::string numerics = args.size() > 2 ? args[2] : "auto";
  const auto begin = Clock::now();
  auto model =
      model::Model::Load(path, {.numerics = numerics, .threads = threads, .progress = nullptr});
  if (!model.ok()) {
    fmt::print(stderr, "engine_bench: {}\n", FromAbsl(model.status().message()));
    return 1;
  }
  fmt::print("{}\nclass {}, {} threads, loaded in {:.2f} s, {} MB packed\n",
             (*model)->config().ToString(), (*model)->numerics_class(), threads,
             SecondsSince(begin), (*model)->packed_bytes().value() / 1000000);
  device::CpuDevice device;
  auto arena =
      engine::KvArena::Allocate(engine::KvLayoutOf(**model), kv::BlockCount(8 * 36), device);
  TANDEM_CHECK(arena.ok());
  auto runner = engine::ModelRunner::Create(
      **model, *arena,
      {.max_tokens_per_step = TokenCount(512), .max_slices = 8, .threads = threads});
  TANDEM_CHECK(runner.ok());
  Bench bench(**model, *arena, **runner);
  std::vector<double> prefill;
  std::vector<double> one;
  std::vector<double> eight;
  for (int round = 0; round < kRounds; ++round) {
    prefill.push_back(kPrompt / bench.Prefill(0, kPrompt));
    one.push_back(kDecodeSteps / bench.Decode(1));
    eight.push_back(8 * kDecodeSteps / bench.Decode(8));
  }
  fmt::print("prefill {} tokens: {:.0f} tokens/s\n", kPrompt, Median(prefill));
  fmt::print("decode, 1 sequence: {:.1f} tokens/s; 8 sequences: {:.1f} tokens/s together\n",
             Median(one), Median(eight));
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  return tandem::Main(std::vector<std::string>(argv + 1, argv + argc));
}
