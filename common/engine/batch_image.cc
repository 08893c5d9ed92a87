#include "common/engine/batch_image.h"

namespace tandem::engine {

BatchImage::BatchImage(const Limits& limits)
    : limits_(limits),
      table_stride_(static_cast<std::size_t>((limits.max_context.value() + limits.block_size - 1) /
                                             limits.block_size)),
      tables_(table_stride_ * static_cast<std::size_t>(limits.max_slices)) {
  const auto rows = static_cast<std::size_t>(limits.max_tokens.value());
  const auto slices = static_cast<std::size_t>(limits.max_slices);
  ids_.reserve(rows);
  positions_.reserve(rows);
  slices_.reserve(slices);
  sample_rows_.reserve(slices);
  sample_slices_.reserve(slices);
  sample_kv_slices_.reserve(slices);
}

void BatchImage::Clear() {
  ids_.clear();
  positions_.clear();
  slices_.clear();
  sample_rows_.clear();
  sample_slices_.clear();
  sample_kv_slices_.clear();
}

Status BatchImage::CheckSlice(const sequence::Slice& slice, std::size_t index) const {
  const auto count = static_cast<std::int64_t>(slice.tokens.size());
  const std::int64_t first = slice.first.value();
  if (count < 1) return InvalidArgument("slice {} has no token", index);
  if (first < 0 || first + count > limits_.max_context.value()) {
    return InvalidArgument("slice {}: tokens {} to {} leave the context of {}", index, first,
                           first + count, limits_.max_context);
  }
  for (TokenId token : slice.tokens) {
    if (token.value() >= 0 && token.value() < limits_.vocab_size) continue;
    return InvalidArgument("slice {}: token id {} is not in the vocabulary of {}", index, token,
                           limits_.vocab_size);
  }
  const std::int64_t blocks = (first + count + limits_.block_size - 1) / limits_.block_size;
  if (static_cast<std::int64_t>(slice.block_table.size()) < blocks) {
    return InvalidArgument("slice {}: {} blocks in its table, tokens up to {} need {}", index,
                           slice.block_table.size(), first + count, blocks);
  }
  for (kv::BlockId block : slice.block_table.first(static_cast<std::size_t>(blocks))) {
    if (block.value() >= 0 && block.value() < limits_.num_blocks.value()) continue;
    return InvalidArgument("slice {}: block {} is not one of the arena's {}", index, block,
                           limits_.num_blocks);
  }
  return OkStatus();
}

void BatchImage::Append(const sequence::Slice& slice) {
  const std::int64_t first = slice.first.value();
  const auto count = static_cast<std::int64_t>(slice.tokens.size());
  const std::int64_t blocks = (first + count + limits_.block_size - 1) / limits_.block_size;
  std::int32_t* table = tables_.data() + slices_.size() * table_stride_;
  for (std::int64_t i = 0; i < blocks; ++i) {
    table[i] = slice.block_table[static_cast<std::size_t>(i)].value();
  }
  if (slice.sample != nullptr) {
    const auto sample = static_cast<std::int64_t>(sample_kv_slices_.size());
    sample_kv_slices_.push_back({sample, 1, first + count - 1, table});
    sample_rows_.push_back(static_cast<std::int32_t>(num_rows() + count - 1));
    sample_slices_.push_back(static_cast<std::int32_t>(slices_.size()));
  }
  slices_.push_back({num_rows(), count, first, table});
  for (std::int64_t i = 0; i < count; ++i) {
    ids_.push_back(slice.tokens[static_cast<std::size_t>(i)].value());
    positions_.push_back(static_cast<std::int32_t>(first + i));
  }
}

Status BatchImage::Set(const sequence::Batch& batch) {
  Clear();
  if (batch.slices.size() > static_cast<std::size_t>(limits_.max_slices)) {
    return InvalidArgument("batch of {} slices, the engine was made for {}", batch.slices.size(),
                           limits_.max_slices);
  }
  if (batch.num_tokens() > limits_.max_tokens.value()) {
    return InvalidArgument("batch of {} tokens, the engine was made for {}", batch.num_tokens(),
                           limits_.max_tokens);
  }
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    if (Status status = CheckSlice(batch.slices[i], i); !status.ok()) {
      Clear();
      return status;
    }
    Append(batch.slices[i]);
  }
  return OkStatus();
}

}  // namespace tandem::engine
