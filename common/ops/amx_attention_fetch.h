// The chunks of keys of consecutive AMX attention calls, and keys and values asked for ahead of
// use. Included after amx_attention_data.h, by sources built for AMX; internal linkage.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

// One chunk of one call.
struct ChunkStep {
  const AttendArgs* args;  // null: no more
  int64_t call;
  bool first;  // of its call
  bool last;
  KeyChunk chunk;
};

// All chunks of some calls, then those of `after` (as call `count`) if it is not null.
class ChunkWalk {
 public:
  ChunkWalk(const AttendArgs* calls, int64_t count, const AttendArgs* after)
      : calls_(calls), count_(count), after_(after) {
    Start();
  }

  void Next(ChunkStep* step) {
    step->args = args_;
    step->call = call_;
    if (args_ == nullptr) return;
    step->first = first_;
    FindKeys(args_, at_, &step->chunk);
    at_ += kKeyChunk;
    first_ = false;
    step->last = at_ >= EndKey(args_);
    if (step->last) {
      ++call_;
      Start();
    }
  }

 private:
  void Start() {
    args_ = call_ < count_ ? calls_ + call_ : call_ == count_ ? after_ : nullptr;
    if (args_ != nullptr) at_ = FirstKey(args_) / kKeyChunk * kKeyChunk;
    first_ = true;
  }

  const AttendArgs* calls_;
  int64_t count_;
  const AttendArgs* after_;
  const AttendArgs* args_ = nullptr;
  int64_t call_ = 0;
  int64_t at_ = 0;  // first key of the next chunk
  bool first_ = true;
};

// Asks for keys and values, four cache lines at a time, evenly over the work in between: a core has
// few requests in the air, and when that many are, what is behind the next in the program waits.
class KeyFetch {
 public:
  void AddKeys(const ChunkStep& step) { Add(step, step.chunk.keys); }
  void AddValues(const ChunkStep& step) { Add(step, step.chunk.values); }
  // What Some(weight)s of `weights` in all are to ask for is added.
  void Start(int64_t weights) {
    weights_ = weights;
    fours_ = count_ * (RoundUp(run_bytes_, kBytes) / kBytes);
    next_ = runs_[0];
  }

  [[gnu::always_inline]] void Some(int64_t weight) {
    due_ += weight * fours_;
    for (; due_ >= weights_; due_ -= weights_) {
      for (int64_t at = 0; at < kBytes; at += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(next_ + at), _MM_HINT_T0);
      }
      next_ += kBytes;
      if (next_ >= runs_[run_] + run_bytes_) {
        run_ = run_ + 1 < count_ ? run_ + 1 : run_;
        next_ = runs_[run_];
      }
    }
  }

 private:
  static constexpr int64_t kBytes = 256;

  void Add(const ChunkStep& step, const uint8_t* const* tiles) {
    if (step.args == nullptr || !WholeTiles(step.args)) return;
    run_bytes_ = kTileSide * step.args->head_dim * 2;
    for (int64_t tile = step.chunk.tile_begin; tile < step.chunk.tile_end; ++tile) {
      runs_[count_++] = tiles[tile];
    }
  }

  const uint8_t* runs_[kKeyTiles * 2];
  int64_t count_ = 0;
  int64_t run_ = 0;
  int64_t run_bytes_ = 0;
  const uint8_t* next_ = nullptr;
  int64_t fours_ = 0;
  int64_t due_ = 0;
  int64_t weights_ = 1;
};

}  // namespace
}  // namespace tandem::ops
