// The keys and values that AMX attention works on next, asked for while it works on others.
// Included after amx_attention_data.h, by sources built for AMX; internal linkage.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

// Four cache lines at a time, evenly over the work in between: as many requests as a core can have
// in the air are soon filled, and then what is behind them in the program waits.
class KeyFetch {
 public:
  // What Some(weight)s of `weights` in all are to ask for.
  KeyFetch(const AttendArgs* args, const KeyChunk& chunk, int64_t weights) : weights_(weights) {
    if (args == nullptr || !WholeTiles(args)) return;
    run_bytes_ = kTileSide * args->head_dim * 2;
    for (int64_t tile = chunk.tile_begin; tile < chunk.tile_end; ++tile) {
      runs_[count_++] = chunk.keys[tile];
      runs_[count_++] = chunk.values[tile];
    }
    fours_ = count_ * RoundUp(run_bytes_, kBytes) / kBytes;
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

  const uint8_t* runs_[kKeyTiles * 2];  // a tile's keys, its values, …
  int64_t count_ = 0;
  int64_t run_ = 0;
  int64_t run_bytes_ = 0;
  const uint8_t* next_ = nullptr;
  int64_t fours_ = 0;
  int64_t due_ = 0;
  int64_t weights_;
};

}  // namespace
}  // namespace tandem::ops
