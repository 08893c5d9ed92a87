#include "tests/bench/engine/engine_load.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tandem::bench {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

EngineLoad::EngineLoad(const model::Model& model, const Options& options)
    : model_(model), options_(options), work_(model) {
  const kv::KvLayout layout = engine::KvLayoutOf(model);
  const std::int32_t blocks = layout.BlocksFor(TokenCount(options.max_tokens)).value();
  auto arena = engine::KvArena::Allocate(layout, kv::BlockCount(blocks + options.max_sequences),
                                         device_);  // each rounds up by itself
  TANDEM_CHECK(arena.ok());
  arena_.emplace(*std::move(arena));
  auto runner = engine::ModelRunner::Create(
      model, *arena_,
      {.max_tokens_per_step = TokenCount(std::max(options.chunk, options.max_sequences)),
       .max_slices = options.max_sequences,
       .threads = options.threads});
  TANDEM_CHECK(runner.ok());
  runner_ = *std::move(runner);
}

std::vector<kv::BlockId> EngineLoad::Table(int index, int tokens) const {
  const int blocks = arena_->layout().BlocksFor(TokenCount(tokens)).value();
  std::vector<kv::BlockId> table;
  for (int i = 0; i < blocks; ++i) table.push_back(kv::BlockId(index * blocks + i));
  return table;
}

double EngineLoad::RunPrompt(int sequence, int tokens, const std::vector<kv::BlockId>& table) {
  TokenIds prompt;
  for (int i = 0; i < tokens; ++i) {
    prompt.push_back(TokenId((i * 7919 + sequence) % model_.config().vocab_size));
  }
  const auto start = Clock::now();
  for (int first = 0; first < tokens; first += options_.chunk) {
    const int count = std::min(options_.chunk, tokens - first);
    const bool last = first + count == tokens;
    sequence::Batch batch;
    batch.slices.push_back({.tag = sequence::SliceTag(0),
                            .first = TokenIndex(first),
                            .tokens = std::span(prompt).subspan(static_cast<std::size_t>(first),
                                                                static_cast<std::size_t>(count)),
                            .block_table = table,
                            .sample = last ? &greedy_ : nullptr});
    TANDEM_CHECK(runner_->Step(batch).ok());
    work_.AddStep(1, count, first, last);
  }
  return SecondsSince(start);
}

double EngineLoad::Prefill(int tokens) {
  runner_->SetStageTimes(times_);
  if (times_ != nullptr) times_->Reset();
  work_.Reset();
  return RunPrompt(0, tokens, Table(0, tokens));
}

double EngineLoad::Decode(int sequences, int prompt, int steps) {
  runner_->SetStageTimes(nullptr);
  std::vector<TokenIds> next(static_cast<std::size_t>(sequences), TokenIds{TokenId(5)});
  std::vector<std::vector<kv::BlockId>> tables;
  for (int i = 0; i < sequences; ++i) {
    tables.push_back(Table(i, prompt + steps));
    RunPrompt(i, prompt, tables.back());
  }
  runner_->SetStageTimes(times_);
  if (times_ != nullptr) times_->Reset();
  work_.Reset();
  const auto start = Clock::now();
  for (int step = 0; step < steps; ++step) {
    sequence::Batch batch;
    for (std::size_t i = 0; i < next.size(); ++i) {
      batch.slices.push_back({.tag = sequence::SliceTag(i),
                              .first = TokenIndex(prompt + step),
                              .tokens = next[i],
                              .block_table = tables[i],
                              .sample = &greedy_,
                              .position = Position(step)});
    }
    auto sampled = runner_->Step(batch);
    TANDEM_CHECK(sampled.ok());
    for (const auto& token : *sampled) next[token.tag.value()] = {token.token};
    work_.AddStep(sequences, 1, prompt + step, true);
  }
  return SecondsSince(start);
}

}  // namespace tandem::bench
