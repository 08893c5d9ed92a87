// PrefillCore: which prompts are computed, step by step.
#include <algorithm>

#include "common/base/check.h"
#include "prefill_node/core/prefill_impl.h"

namespace tandem::prefill_node {

using handoff::Reason;

// First blocks of `task` whose KV of `layer` is in the arena; a last, partial one counts only when
// the prompt is whole.
std::int32_t PrefillCore::Impl::ReadyBlocks(const Task& task, std::int32_t layer) const {
  TokenCount computed = task.machine.computed();
  if (task.in_step && layer < step_.layers_done) computed += task.chunk;
  if (computed == task.machine.num_tokens()) return BlocksOf(computed);
  return computed.value() / config_.layout.block_size;
}

// Pins what the prefix cache has of the prompt and blocks for the rest; false: no room now.
bool PrefillCore::Impl::Enter(Time now, Task& task, Actions& out) {
  const std::int32_t tokens = task.machine.num_tokens().value();
  const std::int32_t block_size = config_.layout.block_size;
  // At least one token is computed, for its logits.
  const kv::BlockCount most((tokens - 1) / block_size);
  cache_.Match(task.block_hashes, most, task.blocks);
  const auto hits = static_cast<std::int32_t>(task.blocks.size());
  const kv::BlockCount rest(BlocksOf(TokenCount(tokens)) - hits);
  if (!cache_.Allocate(rest, task.blocks).ok()) {
    Free(task);
    return false;
  }
  counters_.cached_tokens += std::int64_t{hits} * block_size;
  task.machine.StartComputing(now, TokenCount(hits * block_size));
  queued_.erase(task.tag);
  active_.emplace(task.tag, &task);
  if (task.machine.moves()) Place(now, task, out);
  return true;
}

void PrefillCore::Impl::TryStep(Time now, Actions& out) {
  if (step_.running) return;
  std::int64_t pending = 0;
  for (const auto& [tag, task] : active_) pending += task->machine.left().value();
  while (!queued_.empty() && pending < config_.step_tokens.value() &&
         active_.size() < static_cast<std::size_t>(config_.step_sequences)) {
    Task& task = *queued_.begin()->second;
    const std::uint64_t tag = task.tag;
    if (!Enter(now, task, out)) break;
    auto it = active_.find(tag);  // no sink: it failed at once
    if (it != active_.end()) pending += it->second->machine.left().value();
  }
  StartChunks(now, out);
}

// A step is the longest time that decoding may wait for, where both share cores: the engine may
// stop twice a layer (engine::StepObserver).
TokenCount PrefillCore::Impl::StepTokens() const {
  const TokenCount computed =
      active_.empty() ? TokenCount(0) : active_.begin()->second->machine.computed();
  return scheduler::StepTokens({.most = config_.step_tokens,
                                .block_size = config_.layout.block_size,
                                .pieces = std::int64_t{2} * config_.layout.num_layers,
                                .slice = slice_},
                               fit_.time(), computed);
}

void PrefillCore::Impl::StartChunks(Time now, Actions& out) {
  progress_.clear();
  chunks_.clear();
  for (const auto& [tag, task] : active_) {
    progress_.push_back({task->machine.computed(), task->machine.num_tokens()});
  }
  scheduler::PlanChunks(StepTokens(), config_.layout.block_size, progress_, chunks_);
  step_.tasks.clear();
  step_.batch.slices.clear();
  step_.tokens = step_.pairs = 0;
  std::size_t i = 0;
  for (const auto& [tag, task] : active_) {
    const TokenCount chunk = chunks_[i++];
    if (chunk == TokenCount(0)) continue;
    const std::int32_t first = task->machine.computed().value();
    task->in_step = true;
    task->chunk = chunk;
    sequence::Slice slice;
    slice.tag = sequence::SliceTag(tag);
    slice.first = TokenIndex(first);
    slice.tokens =
        std::span(*task->machine.tokens())
            .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(chunk.value()));
    slice.block_table = task->blocks;
    if (chunk == task->machine.left()) {
      slice.sample = &task->machine.params();
      slice.position = task->machine.first_position();
    }
    step_.batch.slices.push_back(slice);
    step_.tasks.push_back(task);
    step_.tokens += chunk.value();
    step_.pairs += scheduler::ChunkPairs(first, chunk.value());
  }
  if (step_.tasks.empty()) return;
  ++step_.number;
  step_.running = true;
  step_.started = now;
  step_.stuck_after = scheduler::StuckAfter(fit_.time(), step_.tokens, step_.pairs);
  step_.layers_done = 0;
  out.emplace_back(StartStep{step_.number, &step_.batch, fit_.Predict(step_.tokens, step_.pairs)});
}

void PrefillCore::Impl::LayerComputed(Time now, std::uint64_t step, kv::Layer layer, Actions& out) {
  if (!step_.running || step != step_.number || layer.value() < step_.layers_done ||
      layer.value() >= config_.layout.num_layers) {
    return;
  }
  step_.layers_done = layer.value() + 1;
  for (Task* task : step_.tasks) {
    if (task->ended) continue;
    if (step_.layers_done == config_.layout.num_layers && task->chunk == task->machine.left()) {
      task->kv_done = now;
    }
    Pump(now, *task, out);
  }
}

// Takes the running step apart; what ended meanwhile gives its blocks back now.
void PrefillCore::Impl::EndStep(Time) {
  step_.running = false;
  for (Task* task : step_.tasks) task->in_step = false;
  for (auto& task : remainders_) Free(*task);
}

void PrefillCore::Impl::StepDone(Time now, std::uint64_t step,
                                 std::span<const sequence::SampledToken> results, Duration took,
                                 Actions& out) {
  if (!step_.running || step != step_.number) return;
  fit_.Observe(step_.tokens, step_.pairs, took);
  EndStep(now);
  for (auto& task : remainders_) {
    if (task->answer.has_value()) SendTo(task->machine.router(), *task->answer, out);
  }
  std::erase_if(step_.tasks, [](Task* task) { return task->ended; });
  remainders_.clear();
  // A task may end here, but only itself; others of the step stay valid.
  for (Task* task : std::vector<Task*>(step_.tasks)) {
    counters_.computed_tokens += task->chunk.value();
    task->machine.Advance(task->chunk);
    task->chunk = TokenCount(0);
    const std::int32_t full = task->machine.computed().value() / config_.layout.block_size;
    for (std::int32_t b = 0; b < full; ++b) {
      const auto index = static_cast<std::size_t>(b);
      if (index < task->block_hashes.size()) {
        cache_.Insert(task->block_hashes[index], task->blocks[index]);
      }
    }
    if (task->machine.left() > TokenCount(0)) {
      Pump(now, *task, out);
      continue;
    }
    auto result = std::find_if(results.begin(), results.end(),
                               [&](const auto& r) { return r.tag.value() == task->tag; });
    if (result == results.end()) {
      FailTask(now, *task, Reason::kInternal, out);
    } else {
      OnTokenZero(now, *task, *result, out);
    }
  }
  step_.tasks.clear();
  TryStep(now, out);
}

void PrefillCore::Impl::StepFailed(Time now, std::uint64_t step, Actions& out) {
  if (!step_.running || step != step_.number) return;
  EndStep(now);
  for (auto& task : remainders_) {
    if (task->answer.has_value()) SendTo(task->machine.router(), *task->answer, out);
  }
  std::erase_if(step_.tasks, [](Task* task) { return task->ended; });
  remainders_.clear();
  for (Task* task : std::vector<Task*>(step_.tasks)) FailTask(now, *task, Reason::kInternal, out);
  step_.tasks.clear();
  TryStep(now, out);
}

void PrefillCore::Impl::OnTokenZero(Time now, Task& task, const sequence::SampledToken& token,
                                    Actions& out) {
  active_.erase(task.tag);
  if (task.kv_done == Time{}) task.kv_done = now;
  task.machine.OnFirstToken(now, token.token, token.logprob);
  SendTo(task.machine.router(),
         handoff::FirstToken{task.machine.request(), task.machine.attempt(),
                             task.machine.first_position(), token.token, token.logprob,
                             task.machine.finish(), task.machine.times},
         out);
  if (task.machine.state() == Machine::State::kDone) {
    EndTask(now, task, out);
    return;
  }
  Pump(now, task, out);
  MaybeHandOff(task, out);
}

}  // namespace tandem::prefill_node
