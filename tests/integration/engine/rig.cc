#include "tests/integration/engine/rig.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <span>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/device/cpu/cpu_device.h"

namespace tandem::testing {
namespace {

template <typename T>
T ValueOrDie(StatusOr<T> value) {
  if (!value.ok()) fmt::print(stderr, "{}\n", FromAbsl(value.status().message()));
  TANDEM_CHECK(value.ok());
  return *std::move(value);
}

template <typename T>
void Shuffle(std::vector<T>& items, std::uint64_t seed) {
  SplitMix64 random(seed);
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.Below(i)]);
}

class HashLogits final : public engine::LogitsSink {
 public:
  void Logits(sequence::SliceTag tag, std::span<const float> logits) override {
    hashes_[tag.value()] = Sha256().Update(std::as_bytes(logits)).Finish128();
  }
  const Hash128& Of(sequence::SliceTag tag) const { return hashes_.at(tag.value()); }

 private:
  std::map<std::uint64_t, Hash128> hashes_;
};

bool AllZero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

std::string RigPlan::ToString() const {
  return fmt::format("batch {}, chunk {}, {} threads", batch,
                     chunk == 0 ? "whole" : std::to_string(chunk), threads);
}

struct EngineRig::Active {
  std::size_t index;  // of the request
  const RigRequest* request;
  RigResult* result;
  TokenIds tokens;            // prompt, earlier, generated
  std::int64_t computed = 0;  // whose KV is stored
  std::vector<kv::BlockId> blocks;

  bool Done() const {
    return static_cast<std::int64_t>(result->tokens.size() + request->earlier.size()) >=
           request->params.max_tokens.value();
  }
};

EngineRig::EngineRig(const model::Model& model, const Options& options) : model_(model) {
  device::CpuDevice device;
  arena_.emplace(ValueOrDie(engine::KvArena::Allocate(engine::KvLayoutOf(model),
                                                      kv::BlockCount(options.num_blocks), device)));
  // Old bytes everywhere: what a block held before must not matter.
  auto bytes = ValueOrDie(arena_->region().HostView());
  std::memset(bytes.data(), 0x7f, bytes.size());
  engine::ModelRunner::Options runner;
  runner.max_tokens_per_step = options.max_tokens_per_step;
  runner.max_slices = options.max_slices;
  runner.threads = options.threads;
  runner_ = ValueOrDie(engine::ModelRunner::Create(model, *arena_, runner));
}

std::vector<RigResult> EngineRig::Run(const std::vector<RigRequest>& requests,
                                      const RigPlan& plan) {
  std::vector<RigResult> results(requests.size());
  std::vector<std::size_t> queue(requests.size());
  std::iota(queue.begin(), queue.end(), 0u);
  Shuffle(queue, plan.seed);
  std::vector<kv::BlockId> free;
  for (std::int32_t i = 0; i < arena_->num_blocks().value(); ++i) free.push_back(kv::BlockId(i));
  Shuffle(free, plan.seed + 1);
  std::vector<Active> active;
  while (!queue.empty() || !active.empty()) {
    while (!queue.empty() && static_cast<int>(active.size()) < plan.batch) {
      const RigRequest& request = requests[queue.back()];
      Active next{queue.back(), &request, &results[queue.back()], request.prompt, 0, {}};
      next.tokens.insert(next.tokens.end(), request.earlier.begin(), request.earlier.end());
      const std::int32_t most =
          static_cast<std::int32_t>(request.prompt.size()) + request.params.max_tokens.value();
      const auto blocks = arena_->layout().BlocksFor(TokenCount(most)).value();
      TANDEM_CHECK(free.size() >= static_cast<std::size_t>(blocks));
      next.blocks.assign(free.end() - blocks, free.end());
      free.resize(free.size() - static_cast<std::size_t>(blocks));
      active.push_back(std::move(next));
      queue.pop_back();
    }
    RunStep(active, plan);
    for (std::size_t i = 0; i < active.size();) {
      if (!active[i].Done()) {
        ++i;
        continue;
      }
      Collect(active[i], *active[i].result);
      free.insert(free.begin(), active[i].blocks.begin(), active[i].blocks.end());
      active.erase(active.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return results;
}

void EngineRig::RunStep(std::vector<Active>& active, const RigPlan& plan) {
  sequence::Batch batch;
  for (std::size_t i = 0; i < active.size(); ++i) {
    const Active& a = active[i];
    const auto left = static_cast<std::int64_t>(a.tokens.size()) - a.computed;
    const std::int64_t count = plan.chunk == 0 ? left : std::min(left, plan.chunk);
    sequence::Slice slice;
    slice.tag = sequence::SliceTag(i);
    slice.first = TokenIndex(static_cast<std::int32_t>(a.computed));
    slice.tokens = std::span(a.tokens).subspan(static_cast<std::size_t>(a.computed),
                                               static_cast<std::size_t>(count));
    slice.block_table = a.blocks;
    if (count == left) slice.sample = &a.request->params;
    slice.position =
        Position(static_cast<std::int32_t>(a.request->earlier.size() + a.result->tokens.size()));
    batch.slices.push_back(slice);
  }
  HashLogits hashes;
  runner_->SetLogitsSink(&hashes);
  const auto sampled = ValueOrDie(runner_->Step(batch));
  runner_->SetLogitsSink(nullptr);
  for (const sequence::Slice& slice : batch.slices) {
    active[slice.tag.value()].computed += static_cast<std::int64_t>(slice.tokens.size());
  }
  for (const sequence::SampledToken& token : sampled) {
    Active& a = active[token.tag.value()];
    a.tokens.push_back(token.token);
    a.result->tokens.push_back(token.token);
    a.result->logprobs.push_back(token.logprob);
    a.result->logits.push_back(hashes.Of(token.tag));
  }
}

void EngineRig::Collect(const Active& active, RigResult& result) const {
  const kv::KvLayout& layout = arena_->layout();
  const std::int64_t row = layout.head_dim * layout.element_bytes();
  const std::int64_t parts = 2 * std::int64_t{layout.num_kv_heads};
  result.stored = active.computed;
  for (std::int32_t layer = 0; layer < layout.num_layers; ++layer) {
    for (std::int64_t position = 0; position < active.computed; ++position) {
      const auto block = active.blocks[static_cast<std::size_t>(position / layout.block_size)];
      const std::byte* bytes = arena_->BlockRegion(kv::Layer(layer), block).address;
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::byte* from =
            bytes + (part * layout.block_size + position % layout.block_size) * row;
        result.kv.insert(result.kv.end(), from, from + row);
      }
    }
    const std::int64_t used = active.computed % layout.block_size;
    if (used == 0) continue;
    const auto last = active.blocks[static_cast<std::size_t>(active.computed / layout.block_size)];
    const std::byte* bytes = arena_->BlockRegion(kv::Layer(layer), last).address;
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::byte* tail = bytes + (part * layout.block_size + used) * row;
      const auto size = static_cast<std::size_t>((layout.block_size - used) * row);
      result.tail_is_zero = result.tail_is_zero && AllZero({tail, size});
    }
  }
}

std::string FirstDifference(const model::Model& model, const RigResult& expected,
                            const RigResult& actual, std::size_t tokens_before) {
  const kv::KvLayout layout = engine::KvLayoutOf(model);
  const std::int64_t row = layout.head_dim * layout.element_bytes();
  const std::int64_t token_bytes = row * 2 * layout.num_kv_heads;
  const std::int64_t stored = std::min(expected.stored, actual.stored);
  // Position by position, each through its layers: the first difference is the cause of the rest.
  for (std::int64_t position = 0; position < stored; ++position) {
    for (std::int64_t layer = 0; layer < layout.num_layers; ++layer) {
      const std::byte* a = expected.kv.data() + (layer * expected.stored + position) * token_bytes;
      const std::byte* b = actual.kv.data() + (layer * actual.stored + position) * token_bytes;
      const auto at = std::mismatch(a, a + token_bytes, b).first - a;
      if (at == token_bytes) continue;
      return fmt::format("layer {}, position {} ({} of KV head {}, byte {})", layer, position,
                         at / row % 2 == 0 ? "K" : "V", at / row / 2, at % row);
    }
  }
  if (!actual.tail_is_zero) return "slots behind the last token are not zero";
  if (expected.stored != actual.stored) {
    return fmt::format("{} tokens stored, expected {}", actual.stored, expected.stored);
  }
  if (actual.tokens.size() + tokens_before != expected.tokens.size()) {
    return fmt::format("{} tokens, expected {}", actual.tokens.size(),
                       expected.tokens.size() - tokens_before);
  }
  for (std::size_t i = 0; i < actual.tokens.size(); ++i) {
    const std::size_t e = i + tokens_before;
    if (actual.logits[i] != expected.logits[e]) return fmt::format("logits of token {}", e);
    if (actual.tokens[i] != expected.tokens[e]) return fmt::format("token {}", e);
    if (actual.logprobs[i] != expected.logprobs[e]) return fmt::format("logprob of token {}", e);
  }
  return "";
}

}  // namespace tandem::testing
