// The tile products of AMX attention of many rows. Included after amx_attention_data.h, by sources
// built for AMX; internal linkage.
#pragma once

#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

// A tile of 16 rows with one chunk of keys.
struct AttendItem {
  const KeyChunk* chunk;
  int64_t query_tile;
  int64_t begin;  // key tiles that any of its rows sees
  int64_t end;
  int64_t buffer;  // of scores, weights, rescale: 0 or 1
  bool masked;     // some row does not see all 64 keys
  bool moves;      // sums are to be rescaled
};

// The tile products of the item after and of the item before, in slots of one: first the scores of
// key tile 0, 1, 2, 3 over a 32nd of the dims, then over the next; then the sums of four dim tiles
// over a half of the keys, then over the other. Tile instructions run in order and a store waits
// for the products before it, so accumulators 0 to 3 are stored when they are needed anew.
template <int kSteps>  // 0: any
class TileSlots {
 public:
  static constexpr int64_t kCount = kSteps * 4 + (kSteps + 1) / 2 * 8;

  explicit TileSlots(const AttendData& data) : data_(data) {}
  int64_t steps() const { return kSteps > 0 ? kSteps : data_.steps; }
  int64_t scores() const { return 4 * steps(); }
  int64_t count() const { return scores() + RoundUp(steps(), 2) * 4; }

  void Start(const AttendItem* before, const AttendItem* after) {
    before_ = before;
    after_ = after;
  }

  inline __attribute__((always_inline)) void Run(int64_t slot) {
    switch (slot % 4) {
      case 0:
        return Run<0>(slot / 4);
      case 1:
        return Run<1>(slot / 4);
      case 2:
        return Run<2>(slot / 4);
      default:
        return Run<3>(slot / 4);
    }
  }

  // Of an item without one before.
  void StoreScores() {
    AddLowScores<3>();
    StoreScores<0>();
    StoreScores<1>();
    StoreScores<2>();
    StoreScores<3>();
  }
  void StoreSums() {
    StoreSums<0>();
    StoreSums<1>();
    StoreSums<2>();
    StoreSums<3>();
    sums_ = nullptr;
  }

 private:
  template <int kSum>
  inline __attribute__((always_inline)) void Run(int64_t round) {
    if (round < steps()) {
      Scores<kSum>(round);
    } else {
      Values<kSum>(round - steps());
    }
  }

  template <int kSum>
  inline __attribute__((always_inline)) void Scores(int64_t step) {
    if (kSum > 0 || step > 0) AddLowScores<(kSum + 3) % 4>();
    if (step == 0) {
      StoreSums<kSum>();
      ZeroTile<kSum>();
    }
    if constexpr (kSum == 0) {
      const uint8_t* queries =
          data_.queries + (after_->query_tile * steps() + step) * 2 * kTileBytes;
      LoadTileOnce<4>(queries, 64);  // not again before all other query tiles
      if (data_.args->precise != 0) LoadTileOnce<7>(queries + kTileBytes, 64);
    }
    if (kSum < after_->begin || kSum >= after_->end) return;
    constexpr int kKeys = 5 + kSum % 2;
    LoadTile<kKeys>(after_->chunk->transposed + (kSum * steps() + step) * kTileBytes, 64);
    AddProductBf16<kSum, 4, kKeys>();
  }

  // A slot after the high parts' product, which it has to wait for.
  template <int kSum>
  inline __attribute__((always_inline)) void AddLowScores() {
    if (data_.args->precise == 0 || kSum < after_->begin || kSum >= after_->end) return;
    AddProductBf16<kSum, 7, 5 + kSum % 2>();
  }

  template <int kSum>
  inline __attribute__((always_inline)) void Values(int64_t round) {
    const int64_t dim_tiles = steps() * 2;
    const int64_t half = round % 2;
    const int64_t dim_tile = round / 2 * 4 + kSum;
    float* sums = data_.sums + (before_->query_tile * dim_tiles + round / 2 * 4) * kTileFloats;
    if (half == 0) {
      if (round == 0) {
        if (kSum == 0 && after_ != nullptr) AddLowScores<3>();
        if (after_ != nullptr) StoreScores<kSum>();
      } else {
        StoreSums<kSum>();
      }
      if (dim_tile < dim_tiles) LoadTile<kSum>(sums + kSum * kTileFloats, 64);
      if constexpr (kSum == 3) {
        sums_ = sums;
        left_ = dim_tiles - round / 2 * 4;
      }
    }
    if (half < before_->begin / 2 || half > (before_->end - 1) / 2) return;
    if constexpr (kSum == 0) {
      LoadTile<4>(data_.weights + (before_->buffer * 2 + half) * kTileBytes, 64);
    }
    if (dim_tile >= dim_tiles) return;
    constexpr int kValues = 5 + kSum % 2;
    LoadTile<kValues>(before_->chunk->paired + (half * dim_tiles + dim_tile) * kTileBytes, 64);
    AddProductBf16<kSum, 4, kValues>();
  }

  template <int kSum>
  inline __attribute__((always_inline)) void StoreScores() {
    StoreTile<kSum>(data_.scores + (after_->buffer * kKeyTiles + kSum) * kTileFloats, 64);
  }
  template <int kSum>
  inline __attribute__((always_inline)) void StoreSums() {
    if (sums_ != nullptr && kSum < left_) StoreTile<kSum>(sums_ + kSum * kTileFloats, 64);
  }

  const AttendData& data_;
  const AttendItem* before_ = nullptr;  // whose values are due, or null
  const AttendItem* after_ = nullptr;   // whose scores are due, or null
  float* sums_ = nullptr;               // where accumulators are to be stored, or null
  int64_t left_ = 0;                    // as many of them
};

}  // namespace
}  // namespace tandem::ops
