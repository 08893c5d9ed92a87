// The kernel calls of one thread's part of attention. Internal to ops.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "common/ops/attention.h"
#include "common/ops/attention_cut.h"
#include "common/ops/attention_parts.h"
#include "common/ops/kernels.h"
#include "common/ops/ops_context.h"
#include "common/ops/paged_kv.h"

namespace tandem::ops {

// What calls have in common.
class CallMaker {
 public:
  CallMaker(const OpsContext& context, const PagedKv& kv, const AttentionArgs& args, int thread_idx)
      : context_(context), kv_(kv), args_(args), thread_idx_(thread_idx) {}

  // Pointers to the tile's rows of the result.
  void Outputs(const Tile& tile, float** out) const;
  // The tile's rows with their keys of one segment. `q`, `positions`: room for the rows.
  AttendArgs Make(const Tile& tile, std::int64_t segment, const float** q, std::int32_t* positions,
                  float* const* out) const;

  const OpsContext& context() const { return context_; }
  std::int64_t head_dim() const { return kv_.head_dim; }
  std::int64_t window() const { return args_.window; }
  int thread_idx() const { return thread_idx_; }

 private:
  template <typename Fn>
  void ForRows(const Tile& tile, Fn&& fn) const;

  const OpsContext& context_;
  const PagedKv& kv_;
  const AttentionArgs& args_;
  int thread_idx_;
};

// Tiles of one segment on their way to the kernel, as many at a time as one call's rows allow.
class CallList {
 public:
  explicit CallList(const CallMaker& maker) : maker_(maker) {}

  void Add(const Tile& tile);
  // `after`: what this thread is likely to add next, or null.
  void Finish(const Tile* after);

 private:
  static constexpr std::int64_t kMaxCalls = 64;
  static constexpr std::int64_t kMaxRows = std::max(kAttendRows, kAmxAttendRows);

  void Make(const Tile& tile);
  void Run(const AttendArgs* after);

  const CallMaker& maker_;
  std::int64_t count_ = 0;
  std::int64_t first_row_[kMaxCalls + 2] = {};  // of each call, in the arrays below
  AttendArgs calls_[kMaxCalls + 1];
  const float* q_[2 * kMaxRows];
  float* out_[2 * kMaxRows];
  std::int32_t positions_[2 * kMaxRows];
};

// A tile whose rows see more than one segment. Its parts begin at row `first` of AttentionParts.
class LongTile {
 public:
  LongTile(const CallMaker& maker, const Tile& tile, std::int64_t first)
      : maker_(maker),
        parts_(maker.context().attention_parts()),
        tile_(tile),
        segments_(SegmentsOf(tile, maker.window())),
        first_(first) {}

  // All segments, one after another, in the same rows.
  void RunAll();
  // One segment, in rows of its own: tile.rows() for each. Who is the last to have done one of this
  // tile (`done` of them) adds all.
  void RunOne(std::int64_t index, std::atomic<std::int64_t>* done);

 private:
  static constexpr std::int64_t kMaxRows = AttentionParts::kRowsPerThread;
  static_assert(kMaxRows >= std::max(kAttendRows, kAmxAttendRows));

  SegmentTile Part(std::int64_t index) const {
    return Segment(tile_, maker_.window(), segments_.begin + index);
  }
  void Run(std::int64_t index, std::int64_t row);
  void Add(std::int64_t index, std::int64_t row);

  const CallMaker& maker_;
  const AttentionParts& parts_;
  const Tile tile_;
  const Range segments_;
  const std::int64_t first_;
  float* out_[kMaxRows];  // of the result
  float base_[kMaxRows];
  float total_[kMaxRows];
};

}  // namespace tandem::ops
