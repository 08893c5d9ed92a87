// DecodeCore: the running sequences, step by step.
#include <algorithm>

#include "common/base/check.h"
#include "common/kv/block_hash.h"
#include "decode_node/core/decode_impl.h"

namespace tandem::decode_node {

using handoff::Reason;
using scheduler::DecodeChoice;

namespace {
std::int32_t Size(const TokenIds& tokens) { return static_cast<std::int32_t>(tokens.size()); }
}  // namespace

void DecodeCore::Impl::Join(const handoff::HandOff& message, Reservation& reservation,
                            Actions& out) {
  const handoff::PlacementKey& key = reservation.machine.key();
  leases_.Remove(key);
  ++counters_.joined;
  out.emplace_back(StopExpecting{key, reservation.machine.source()});
  Sequence& sequence = reservation.sequence.emplace();
  sequence.tag = next_tag_++;
  sequence.tokens = *message.tokens;
  sequence.prompt = message.prompt_tokens;
  sequence.params = message.params;
  sequence.credit = std::int64_t{handoff::kCreditWindow} - 1;
  sequences_.emplace(sequence.tag, &reservation);
  CachePrefix(reservation, reservation.machine.options().kv_tokens);
  ++counters_.tokens;
  handoff::Tokens tokens;
  tokens.key = key;
  tokens.first = message.first_position;
  tokens.tokens = {sequence.tokens.back()};
  tokens.logprobs = {message.first_logprob};
  SendTo(reservation.machine.router(), std::move(tokens), out);
}

// Makes the full blocks of the first `kv_tokens` findable, as far as their hashes are known.
void DecodeCore::Impl::CachePrefix(Reservation& reservation, std::int32_t kv_tokens) {
  if (reservation.hashes == nullptr) return;
  const auto hashes = kv::BlockHashes(*reservation.hashes, config_.layout.block_size);
  const auto full =
      std::min(hashes.size(), static_cast<std::size_t>(kv_tokens / config_.layout.block_size));
  for (std::size_t i = 0; i < full; ++i) cache_.Insert(hashes[i], reservation.machine.blocks[i]);
}

// Extends the hashes by what was generated. Without a first hash the root is not known here, and KV
// of this node's numerics class may only continue hashes of that class.
void DecodeCore::Impl::CacheGenerated(Reservation& reservation) {
  if (!reservation.own_numerics || reservation.hashes == nullptr || reservation.hashes->empty()) {
    return;
  }
  const Sequence& sequence = *reservation.sequence;
  const std::int32_t kv_tokens = Size(sequence.tokens) - 1;
  if (static_cast<std::size_t>(kv_tokens / kv::kGranule) < reservation.hashes->size()) return;
  auto hashes = std::make_shared<std::vector<Hash128>>(*reservation.hashes);
  kv::ExtendChain(Hash128{}, std::span(sequence.tokens).first(static_cast<std::size_t>(kv_tokens)),
                  *hashes);
  reservation.hashes = std::move(hashes);
  CachePrefix(reservation, kv_tokens);
}

// Joined → Free. Blocks of the running step are given back when it ends.
void DecodeCore::Impl::EndSequence(Reservation& reservation) {
  Sequence& sequence = *reservation.sequence;
  sequences_.erase(sequence.tag);
  CacheGenerated(reservation);
  reservation.machine.EndSequence();
  if (sequence.in_step) {
    reservation.ended = true;
    remainders_.push_back(std::move(reservations_.find(reservation.machine.key())->second));
  } else {
    cache_.Unref(reservation.machine.blocks);
  }
  Forget(reservation);  // by its key; a remainder lives on
}

void DecodeCore::Impl::FailSequence(Reservation& reservation, Reason reason, Actions& out) {
  SendTo(reservation.machine.router(), handoff::Failed{reservation.machine.key(), reason}, out);
  EndSequence(reservation);
}

bool DecodeCore::Impl::NeedsBlock(const Reservation& reservation) const {
  const std::int64_t room =
      static_cast<std::int64_t>(reservation.machine.blocks.size()) * config_.layout.block_size;
  return room < Size(reservation.sequence->tokens);
}

kv::BlockCount DecodeCore::Impl::GivesBack(const Reservation& reservation) const {
  kv::BlockCount count{0};
  for (kv::BlockId block : reservation.machine.blocks) {
    if (cache_.refs(block) == 1) ++count;
  }
  return count;
}

kv::BlockCount DecodeCore::Impl::GrowthReserve() const {
  std::int32_t growing = 0;
  for (const auto& [tag, reservation] : sequences_) {
    const Sequence& sequence = *reservation->sequence;
    const std::int64_t room =
        static_cast<std::int64_t>(reservation->machine.blocks.size()) * config_.layout.block_size;
    const std::int64_t most =
        std::min(std::int64_t{sequence.prompt.value()} + sequence.params.max_tokens.value(),
                 std::int64_t{config_.max_context.value()});
    if (room < most) ++growing;
  }
  const std::int32_t each = preempting_ ? config_.layout.BlocksFor(handoff::kHeadroom).value() : 1;
  return kv::BlockCount(growing * each);
}

void DecodeCore::Impl::TryStep(Time now, Actions& out) {
  if (preempting_ && cache_.counts().available() >= GrowthReserve()) preempting_ = false;
  TellOfRoom(now, out);
  if (step_.running || sequences_.empty()) return;
  candidates_.clear();
  choices_.clear();
  bool pressure = cache_.counts().available().value() < static_cast<int>(sequences_.size());
  for (const auto& [tag, reservation] : sequences_) {
    candidates_.push_back({reservation->sequence->credit > 0, NeedsBlock(*reservation),
                           pressure ? GivesBack(*reservation) : kv::BlockCount(0)});
  }
  if (turn_ >= candidates_.size()) turn_ = 0;
  scheduler::PlanDecode(candidates_, cache_.counts().available(), config_.step_sequences, turn_,
                        choices_);
  turn_ += static_cast<std::size_t>(config_.step_sequences);
  if (candidates_.size() <= static_cast<std::size_t>(config_.step_sequences)) turn_ = 0;
  ApplyChoices(out);
  if (step_.items.empty()) return;
  ++step_.number;
  step_.running = true;
  step_.started = now;
  const auto sequences = static_cast<double>(step_.items.size());
  step_.stuck_after = scheduler::StuckAfter(fit_.time(), sequences, step_.kv_tokens);
  out.emplace_back(StartStep{step_.number, &step_.batch, fit_.Predict(sequences, step_.kv_tokens)});
}

void DecodeCore::Impl::ApplyChoices(Actions& out) {
  step_.items.clear();
  step_.batch.slices.clear();
  step_.kv_tokens = 0;
  std::vector<Reservation*> preempted;
  std::size_t i = 0;
  for (const auto& [tag, reservation] : sequences_) {
    const DecodeChoice choice = choices_[i++];
    if (choice == DecodeChoice::kPreempt) preempted.push_back(reservation);
    if (choice == DecodeChoice::kRun) step_.items.push_back(reservation);
  }
  for (Reservation* reservation : preempted) {
    ++counters_.preempted;
    preempting_ = true;
    FailSequence(*reservation, Reason::kPreempted, out);
  }
  // The last one of all, with nothing else in the pool, and still no room: it never fits.
  if (step_.items.empty() && reservations_.size() == 1 && sequences_.size() == 1) {
    Reservation& last = *sequences_.begin()->second;
    if (NeedsBlock(last) && cache_.counts().available() == kv::BlockCount(0)) {
      FailSequence(last, Reason::kTooLong, out);
    }
    return;
  }
  for (Reservation* reservation : step_.items) {
    Sequence& sequence = *reservation->sequence;
    if (NeedsBlock(*reservation)) {
      TANDEM_CHECK(cache_.Allocate(kv::BlockCount(1), reservation->machine.blocks).ok());
    }
    const std::int32_t last = Size(sequence.tokens) - 1;
    sequence.in_step = true;
    sequence::Slice slice;
    slice.tag = sequence::SliceTag(sequence.tag);
    slice.first = TokenIndex(last);
    slice.tokens = std::span(sequence.tokens).last(1);
    slice.block_table = reservation->machine.blocks;
    slice.sample = &sequence.params;
    slice.position = Position(last + 1 - sequence.prompt.value());
    step_.batch.slices.push_back(slice);
    step_.kv_tokens += last + 1;
  }
}

void DecodeCore::Impl::EndStep(Actions& out) {
  step_.running = false;
  for (Reservation* item : step_.items) item->sequence->in_step = false;
  for (auto& remainder : remainders_) {
    cache_.Unref(remainder->machine.blocks);
    if (remainder->answer.has_value()) {
      SendTo(remainder->machine.router(), *remainder->answer, out);
    }
  }
  std::erase_if(step_.items, [](Reservation* item) { return item->ended; });
  remainders_.clear();
}

void DecodeCore::Impl::StepDone(Time, std::uint64_t step,
                                std::span<const sequence::SampledToken> results, Duration took,
                                Actions& out) {
  if (!step_.running || step != step_.number) return;
  fit_.Observe(static_cast<double>(step_.items.size()), step_.kv_tokens, took);
  EndStep(out);
  absl::flat_hash_map<std::uint64_t, const sequence::SampledToken*> by_tag;
  for (const auto& result : results) by_tag.emplace(result.tag.value(), &result);
  for (Reservation* item : step_.items) {
    auto result = by_tag.find(item->sequence->tag);
    if (result == by_tag.end()) {
      FailSequence(*item, Reason::kInternal, out);
    } else {
      OnToken(*item, *result->second, out);
    }
  }
  step_.items.clear();
}

void DecodeCore::Impl::StepFailed(Time, std::uint64_t step, Actions& out) {
  if (!step_.running || step != step_.number) return;
  EndStep(out);
  for (Reservation* item : step_.items) FailSequence(*item, Reason::kInternal, out);
  step_.items.clear();
}

void DecodeCore::Impl::OnToken(Reservation& reservation, const sequence::SampledToken& token,
                               Actions& out) {
  Sequence& sequence = *reservation.sequence;
  const Position position(Size(sequence.tokens) - sequence.prompt.value());
  sequence.tokens.push_back(token.token);
  --sequence.credit;
  ++counters_.tokens;
  handoff::Tokens tokens;
  tokens.key = reservation.machine.key();
  tokens.first = position;
  tokens.tokens = {token.token};
  tokens.logprobs = {token.logprob};
  if (sequence.params.Stops(token.token)) {
    tokens.finish = sequence::FinishReason::kStop;
  } else if (position.value() + 1 >= sequence.params.max_tokens.value() ||
             Size(sequence.tokens) >= config_.max_context.value()) {
    tokens.finish = sequence::FinishReason::kLength;
  }
  const bool last = tokens.finish != sequence::FinishReason::kNone;
  SendTo(reservation.machine.router(), std::move(tokens), out);
  if (last) {
    ++counters_.finished;
    EndSequence(reservation);
  }
}

}  // namespace tandem::decode_node
