// The operators of SmolLM2-135M's forward pass on random Q4_1 weights (Q8_0 head), by class, on two
// threads: tokens per second of prefill chunks and of decode steps. Run it alone on the machine:
//   flock /tmp/bench.lock build/release/tests/ops_bench
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "common/base/thread_pool.h"
#include "common/ops/attention.h"
#include "common/ops/matmul.h"
#include "common/ops/rms_norm.h"
#include "common/ops/rope.h"
#include "common/ops/swiglu.h"
#include "tests/unit/common/ops/ops_testing.h"

namespace tandem::ops {
namespace {

constexpr std::int64_t kHidden = 576, kFeedForward = 1536, kHeads = 9, kKvHeads = 3, kHeadDim = 64;
constexpr std::int64_t kLayers = 30, kVocabulary = 49152, kMaxRows = 2048, kBlockSize = 16;
constexpr int kThreads = 2;

struct Layer {
  PackedMatrix q, k, v, o, gate, up, down;
};

// Weights and buffers of one class.
class Model {
 public:
  explicit Model(NumericsClass numerics)
      : context_(MakeContext(numerics, kThreads, kFeedForward, kHeadDim)), pool_(kThreads) {
    const auto pack = [&](WeightType type, std::int64_t n, std::int64_t k) {
      return *PackedMatrix::Pack(RandomWeights(type, n, k, 1).source, numerics);
    };
    for (Layer& layer : layers_) {
      layer.q = pack(WeightType::kQ4_1, kHidden, kHidden);
      layer.k = pack(WeightType::kQ4_1, kKvHeads * kHeadDim, kHidden);
      layer.v = pack(WeightType::kQ4_1, kKvHeads * kHeadDim, kHidden);
      layer.o = pack(WeightType::kQ4_1, kHidden, kHidden);
      layer.gate = pack(WeightType::kQ4_1, kFeedForward, kHidden);
      layer.up = pack(WeightType::kQ4_1, kFeedForward, kHidden);
      layer.down = pack(WeightType::kQ4_1, kHidden, kFeedForward);
    }
    head_ = pack(WeightType::kQ8_0, kVocabulary, kHidden);
    std::vector<double> inv_freq;
    for (int i = 0; i < kHeadDim / 2; ++i) inv_freq.push_back(std::pow(1e5, -2.0 * i / kHeadDim));
    rope_ = *RopeTable::Create(inv_freq, 1.0, kMaxRows);
    normed_ = *Activations::Create(numerics, kMaxRows, kHidden);
    attended_ = *Activations::Create(numerics, kMaxRows, kHidden);
    gated_ = *Activations::Create(numerics, kMaxRows, kFeedForward);
    arena_.resize(kLayers * BlockBytes() * kMaxRows / kBlockSize * 9);
    hidden_ = RandomFloats(kMaxRows * kHidden, 2);
    norm_.assign(kHidden, 0.02f);
    for (auto* buffer : {&q_, &k_, &v_}) buffer->resize(kMaxRows * kHidden);
    for (auto* buffer : {&gate_, &up_}) buffer->resize(kMaxRows * kFeedForward);
    logits_.resize(32 * kVocabulary);
    for (std::int32_t i = 0; i < kMaxRows; ++i) positions_.push_back(i);
    for (std::int32_t i = 0; i < 9 * kMaxRows / kBlockSize; ++i) table_.push_back(i);
  }

  std::int64_t BlockBytes() const {
    return 2 * kKvHeads * kBlockSize * kHeadDim * ElementBytes(KvTypeOf(context_.numerics()));
  }

  // One pass over `slices` of equal length; every slice's last row is sampled.
  void Forward(std::span<const KvSlice> slices) {
    const std::int64_t rows = slices.back().first_row + slices.back().num_rows;
    std::vector<std::int32_t> positions;
    for (const KvSlice& slice : slices) {
      for (std::int64_t i = 0; i < slice.num_rows; ++i) {
        positions.push_back(static_cast<std::int32_t>(slice.first_position + i));
      }
    }
    pool_.Run([&](int index, int) {
      const Share share{&split_, index};
      for (std::int64_t layer = 0; layer < kLayers; ++layer) {
        RunLayer(layer, rows, slices, positions.data(), share);
      }
      const std::int64_t samples = static_cast<std::int64_t>(slices.size());
      const ActivationView x = normed_.View(samples, kHidden);
      Normalize(x, share);
      pool_.Barrier();
      Matmul(context_, head_, x, {.y = logits_.data()}, share);
    });
  }

  const std::int32_t* table(std::int64_t sequence) const {
    return table_.data() + sequence * kMaxRows / kBlockSize / 4;
  }

 private:
  void Normalize(const ActivationView& out, Share share) {
    share.ForEach(out.rows, [&](Range some) {
      RmsNorm(context_, {.x = hidden_.data(), .weight = norm_.data(), .eps = 1e-5f}, out, some);
    });
  }

  void RunLayer(std::int64_t index, std::int64_t rows, std::span<const KvSlice> slices,
                const std::int32_t* positions, Share share) {
    const Layer& layer = layers_[index];
    const ActivationView x = normed_.View(rows, kHidden);
    Normalize(x, share);
    pool_.Barrier();
    Matmul(context_, layer.q, x, {.y = q_.data()}, share);
    Matmul(context_, layer.k, x, {.y = k_.data()}, share);
    Matmul(context_, layer.v, x, {.y = v_.data()}, share);
    pool_.Barrier();
    constexpr std::int64_t kKvWidth = kKvHeads * kHeadDim;
    const RopeArgs rope{.x = q_.data(),
                        .x_stride = kHidden,
                        .heads = kHeads,
                        .head_dim = kHeadDim,
                        .positions = positions};
    RopeArgs rope_k = rope;
    rope_k.x = k_.data(), rope_k.x_stride = kKvWidth, rope_k.heads = kKvHeads;
    const PagedKv kv{.layer = arena_.data() + index * BlockBytes() * kMaxRows / kBlockSize * 9,
                     .type = KvTypeOf(context_.numerics()),
                     .num_kv_heads = kKvHeads,
                     .block_size = kBlockSize,
                     .head_dim = kHeadDim};
    share.ForEach(rows, [&](Range some) {
      Rope(context_, rope_, rope, some);
      Rope(context_, rope_, rope_k, some);
      KvAppend(context_, kv, slices,
               {.k = k_.data(), .v = v_.data(), .k_stride = kKvWidth, .v_stride = kKvWidth}, some);
    });
    pool_.Barrier();
    const ActivationView attended = attended_.View(rows, kHidden);
    Attention(context_, kv, slices,
              {.q = q_.data(),
               .q_stride = kHidden,
               .out = attended.x,
               .out_stride = kHidden,
               .num_heads = kHeads,
               .scale = 0.125f},
              share);
    pool_.Barrier();
    share.ForEach(rows, [&](Range some) { Prepare(context_, attended, some); });
    pool_.Barrier();
    Matmul(context_, layer.o, attended, {.y = hidden_.data(), .accumulate = true}, share);
    pool_.Barrier();
    Normalize(x, share);
    pool_.Barrier();
    Matmul(context_, layer.gate, x, {.y = gate_.data()}, share);
    Matmul(context_, layer.up, x, {.y = up_.data()}, share);
    pool_.Barrier();
    const ActivationView gated = gated_.View(rows, kFeedForward);
    share.ForEach(rows, [&](Range some) {
      Swiglu(context_, {.gate = gate_.data(), .up = up_.data()}, gated, some);
    });
    pool_.Barrier();
    Matmul(context_, layer.down, gated, {.y = hidden_.data(), .accumulate = true}, share);
    pool_.Barrier();
  }

  OpsContext context_;
  ThreadPool pool_;
  Split split_{pool_.num_threads()};
  Layer layers_[kLayers];
  PackedMatrix head_;
  RopeTable rope_;
  Activations normed_, attended_, gated_;
  std::vector<std::byte> arena_;
  std::vector<float> hidden_, norm_, q_, k_, v_, gate_, up_, logits_;
  std::vector<std::int32_t> positions_, table_;
};

Model& ModelOf(NumericsClass numerics) {
  static std::unique_ptr<Model> model;  // one at a time: they are large
  static NumericsClass held;
  if (model == nullptr || held != numerics) {
    model.reset();
    model = std::make_unique<Model>(numerics);
    held = numerics;
  }
  return *model;
}

// A prompt of `tokens` in chunks of 512.
void Prefill(benchmark::State& state, NumericsClass numerics) {
  Model& model = ModelOf(numerics);
  const std::int64_t tokens = state.range(0);
  for (auto _ : state) {
    for (std::int64_t first = 0; first < tokens; first += 512) {
      const KvSlice slice{.first_row = 0,
                          .num_rows = std::min<std::int64_t>(512, tokens - first),
                          .first_position = first,
                          .block_table = model.table(0)};
      model.Forward({&slice, 1});
    }
  }
  state.SetItemsProcessed(state.iterations() * tokens);
}

struct HeadCounts {
  const char* name;
  std::int64_t heads;
  std::int64_t kv_heads;
};
constexpr HeadCounts kSmol{"attention-9-3/", kHeads, kKvHeads};
constexpr HeadCounts kQwen{"attention-14-2/", 14, 2};

// Attention alone, on one thread: the last `rows` tokens of each of some sequences.
void AttentionOnly(benchmark::State& state, NumericsClass numerics, HeadCounts counts) {
  const std::int64_t length = state.range(0), rows = state.range(1), sequences = state.range(2);
  const std::int64_t q_width = counts.heads * kHeadDim, kv_width = counts.kv_heads * kHeadDim;
  const OpsContext context = MakeContext(numerics, 1, kHidden, kHeadDim);
  PagedKv kv{.type = KvTypeOf(numerics),
             .num_kv_heads = counts.kv_heads,
             .block_size = kBlockSize,
             .head_dim = kHeadDim};
  const std::int64_t blocks = length / kBlockSize;  // of a sequence
  const AlignedBuffer arena = *AlignedBuffer::Allocate(kv.block_bytes() * blocks * sequences);
  kv.layer = arena.data();
  std::vector<std::int32_t> table;
  for (std::int32_t i = 0; i < blocks * sequences; ++i) table.push_back(i);
  const std::vector<float> q = RandomFloats(std::max(length, rows * sequences) * q_width, 1);
  std::vector<float> out(q.size());
  std::vector<KvSlice> slices;
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int32_t* of_sequence = table.data() + i * blocks;
    const KvSlice all{.num_rows = length, .block_table = of_sequence};
    KvAppend(context, kv, {&all, 1},
             {.k = q.data(), .v = q.data(), .k_stride = kv_width, .v_stride = kv_width},
             {0, length});
    slices.push_back({.first_row = i * rows,
                      .num_rows = rows,
                      .first_position = length - rows,
                      .block_table = of_sequence});
  }
  for (auto _ : state) {
    Attention(context, kv, slices,
              {.q = q.data(),
               .q_stride = q_width,
               .out = out.data(),
               .out_stride = q_width,
               .num_heads = counts.heads,
               .scale = 0.125f},
              {});
  }
  const double keys = static_cast<double>(length) - static_cast<double>(rows) / 2;
  const double steps = static_cast<double>(state.iterations() * sequences);
  state.counters["GFLOP/s"] = benchmark::Counter(
      steps * static_cast<double>(rows * q_width) * keys * 4e-9, benchmark::Counter::kIsRate);
  state.counters["KV GB/s"] = benchmark::Counter(
      steps * static_cast<double>(kv.block_bytes() * blocks) * 1e-9, benchmark::Counter::kIsRate);
}

// One token of each of `sequences`, 256 tokens in.
void Decode(benchmark::State& state, NumericsClass numerics) {
  Model& model = ModelOf(numerics);
  std::vector<KvSlice> slices;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    slices.push_back(
        {.first_row = i, .num_rows = 1, .first_position = 256, .block_table = model.table(i)});
  }
  for (auto _ : state) model.Forward(slices);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

}  // namespace
}  // namespace tandem::ops

int main(int argc, char** argv) {
  using namespace tandem::ops;
  for (NumericsClass numerics : FastClasses()) {
    const std::string name(Name(numerics));
    benchmark::RegisterBenchmark(("prefill/" + name).c_str(),
                                 [=](benchmark::State& s) { Prefill(s, numerics); })
        ->Arg(512)
        ->Arg(2048)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("decode/" + name).c_str(),
                                 [=](benchmark::State& s) { Decode(s, numerics); })
        ->Arg(1)
        ->Arg(8)
        ->Arg(32)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
  for (NumericsClass numerics : FastClasses()) {
    for (const HeadCounts& counts : {kSmol, kQwen}) {
      auto* attention = benchmark::RegisterBenchmark(
          (counts.name + std::string(Name(numerics))).c_str(),
          [=](benchmark::State& s) { AttentionOnly(s, numerics, counts); });
      attention->Unit(benchmark::kMicrosecond)->Args({512, 512, 1})->Args({2048, 512, 1});
      for (std::int64_t length : {192, 2048}) {
        for (std::int64_t sequences : {1, 8, 32}) attention->Args({length, 1, sequences});
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
