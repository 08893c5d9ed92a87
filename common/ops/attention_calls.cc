#include "common/ops/attention_calls.h"

namespace tandem::ops {

// fn(row of the batch, head, position), a token's heads one after another.
template <typename Fn>
void CallMaker::ForRows(const Tile& tile, Fn&& fn) const {
  for (std::int64_t token = 0; token < tile.tokens; ++token) {
    for (std::int64_t head = tile.head; head < tile.head + tile.heads; ++head) {
      fn(tile.slice->first_row + tile.first + token, head,
         static_cast<std::int32_t>(tile.position() + token));
    }
  }
}

void CallMaker::Outputs(const Tile& tile, float** out) const {
  ForRows(tile, [&](std::int64_t row, std::int64_t head, std::int32_t) {
    *out++ = args_.out + row * args_.out_stride + head * kv_.head_dim;
  });
}

AttendArgs CallMaker::Make(const Tile& tile, std::int64_t segment, const float** q,
                           std::int32_t* positions, float* const* out) const {
  std::int64_t rows = 0;
  ForRows(tile, [&](std::int64_t row, std::int64_t head, std::int32_t position) {
    q[rows] = args_.q + row * args_.q_stride + head * kv_.head_dim;
    positions[rows++] = position;
  });
  return {
      .rows = rows,
      .q = q,
      .out = out,
      .position = positions,
      .window = args_.window,
      .key_begin = segment * kKeySegment,
      .key_end = (segment + 1) * kKeySegment,
      .scale = args_.scale,
      .precise = args_.precise ? 1 : 0,
      .head_dim = kv_.head_dim,
      .block_size = kv_.block_size,
      .block_bytes = kv_.block_bytes(),
      .kv = reinterpret_cast<const std::uint8_t*>(kv_.layer) +
            tile.kv_head * 2 * kv_.block_size * kv_.row_bytes(),
      .block_table = tile.slice->block_table,
      .scratch = context_.scratch(thread_idx_),
      .base = nullptr,
      .total = nullptr,
  };
}

void CallList::Add(const Tile& tile) {
  Make(tile);
  if (count_ == kMaxCalls || first_row_[count_ + 1] > kMaxRows) {
    Run(&calls_[count_]);
    Make(tile);
  }
  ++count_;
}

void CallList::Finish(const Tile* after) {
  if (after != nullptr) Make(*after);
  Run(after != nullptr ? &calls_[count_] : nullptr);
}

// The call of `tile`, behind those that are there.
void CallList::Make(const Tile& tile) {
  const std::int64_t first = first_row_[count_];
  maker_.Outputs(tile, out_ + first);
  calls_[count_] = maker_.Make(tile, SegmentsOf(tile, maker_.window()).begin, q_ + first,
                               positions_ + first, out_ + first);
  first_row_[count_ + 1] = first + calls_[count_].rows;
}

void CallList::Run(const AttendArgs* after) {
  if (count_ > 0) maker_.context().kernels().attend(calls_, count_, after);
  count_ = 0;
}

void LongTile::RunAll() {
  maker_.Outputs(tile_, out_);
  for (std::int64_t i = 0; i < segments_.end - segments_.begin; ++i) {
    Run(i, first_);
    Add(i, first_);
  }
}

void LongTile::RunOne(std::int64_t index, std::atomic<std::int64_t>* done) {
  const std::int64_t count = segments_.end - segments_.begin;
  Run(index, first_ + index * tile_.rows());
  if (done->fetch_add(1, std::memory_order_acq_rel) + 1 < count) return;
  done->store(0, std::memory_order_relaxed);
  maker_.Outputs(tile_, out_);
  for (std::int64_t i = 0; i < count; ++i) Add(i, first_ + i * tile_.rows());
}

// Segment `index` into parts from `row` on.
void LongTile::Run(std::int64_t index, std::int64_t row) {
  const SegmentTile part = Part(index);
  float* out[kMaxRows];
  const float* q[kMaxRows];
  std::int32_t positions[kMaxRows];
  for (std::int64_t i = 0; i < part.tile.rows(); ++i) out[i] = parts_.out(row + i);
  AttendArgs call = maker_.Make(part.tile, segments_.begin + index, q, positions, out);
  call.base = parts_.base(row);
  call.total = parts_.total(row);
  maker_.context().kernels().attend(&call, 1, nullptr);
}

void LongTile::Add(std::int64_t index, std::int64_t row) {
  const SegmentTile part = Part(index);
  float* out[kMaxRows];
  for (std::int64_t i = 0; i < part.tile.rows(); ++i) out[i] = parts_.out(row + i);
  AddParts(maker_.context().kernels(), maker_.head_dim(), part.tile.rows(), part.fresh_row,
           {.out = out, .base = parts_.base(row), .total = parts_.total(row)},
           {.out = out_ + part.first_row,
            .base = base_ + part.first_row,
            .total = total_ + part.first_row});
}

}  // namespace tandem::ops
