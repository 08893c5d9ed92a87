// AMX attention of at most 8 rows a call, as in decoding: the bytes of amx_attention_many.h's.
// Included after amx_attention_few_data.h, by sources built for AMX; internal linkage.
//
// Scores are keys x queries: the keys as they are stored, and kWide (4 or 8) columns of queries. So
// nothing is transposed but the scores. Those of a chunk are computed while the values of the chunk
// before are paired, whichever calls the two belong to; meanwhile the keys after next and the
// values that are next are fetched.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

constexpr int64_t kFewRows = 8;
// Of what is fetched, a share in the time of a few products.
constexpr int64_t kProducts = 4;

// Tiles 0, 1: scores. 2: queries. 3: keys, values. 4: weights. 5, 6, 7: sums.
static void ConfigureForFewRows(int rows) {
  TileShapes shapes;
  for (int tile = 0; tile < 3; ++tile) shapes.SetTile(tile, 16, rows * 4);
  shapes.SetTile(3, 16);
  for (int tile = 4; tile < 8; ++tile) shapes.SetTile(tile, rows);
  ConfigureTiles(shapes);
}

// Calls of at most kWide rows. kSteps: 32s of dims; 0: any.
template <int kWide, int kSteps>
class FewRows {
 public:
  FewRows(const AttendArgs* calls, int64_t count, const AttendArgs* after)
      : count_(count), walk_(calls, count, after) {}

  // Bit i: an output of call i is not finite.
  uint64_t Run() {
    ConfigureForFewRows(kWide);
    for (int64_t i = 0; i < 3; ++i) walk_.Next(&steps_[i]);
    Prepare(&steps_[0], 0);
    KeyFetch none;
    ScoreAndPair<0>(nullptr, &steps_[0], &none);
    int64_t at = 0;
    for (; steps_[at % 4].call < count_; ++at) {
      Work(at);
      walk_.Next(&steps_[(at + 3) % 4]);
    }
    Finish(steps_[(at + 3) % 4]);
    return bad_;
  }

 private:
  static constexpr int64_t kSlots = 4;  // of calls that are in work at the same time, at most

  static int64_t HalfBegin(const KeyChunk& chunk) { return chunk.tile_begin / 2; }
  static int64_t HalfEnd(const KeyChunk& chunk) { return RoundUp(chunk.tile_end, 2) / 2; }
  const AttendData& DataOf(const ChunkStep& step) const { return data_[step.call % kSlots]; }

  // Of a step whose scores are next, the at-th.
  void Prepare(ChunkStep* step, int64_t at) {
    if (step->first) {
      data_[step->call % kSlots] = MakeAttendData(step->args, step->call % kSlots, kSlots);
      StoreFewQueries<kWide>(DataOf(*step));
    }
    const AttendData& data = DataOf(*step);
    KeyChunk& chunk = step->chunk;
    chunk.paired = data.values;
    chunk.scores = data.scores + at % 2 * kKeyTiles * kTileSide * kWide;
    CopyKeys(data, &chunk, data.copies + at % 2 * kKeyChunk * data.steps * kPairDims * 4);
  }

  // What is left of the step before; weights and sums of the at-th; scores of the next.
  void Work(int64_t at) {
    const ChunkStep& before = steps_[(at + 3) % 4];
    const ChunkStep& step = steps_[at % 4];
    ChunkStep& next = steps_[(at + 1) % 4];
    const ChunkStep& after = steps_[(at + 2) % 4];
    const bool due = next.args != nullptr && next.call < count_;
    KeyFetch fetch;
    fetch.AddKeys(after);
    fetch.AddValues(next);
    if (due) Prepare(&next, at + 1);
    fetch.Start(FetchWeights(step, due ? &next : nullptr));
    ScoreAndPair<0>(&step, due ? &next : nullptr, &fetch);
    if (at > 0 && before.last) Finish(before);
    const AttendData& data = DataOf(step);
    const KeyChunk& chunk = step.chunk;
    if (data.begin[data.args->rows - 1] > chunk.first || data.end[0] < chunk.first + kKeyChunk) {
      WeighFew<kWide, true>(data, chunk, chunk.scores, step.first, &fetch);
    } else {
      WeighFew<kWide, false>(data, chunk, chunk.scores, step.first, &fetch);
    }
    AddValues(data, step, &fetch);
  }

  int64_t FetchWeights(const ChunkStep& step, const ChunkStep* next) const {
    const AttendData& data = DataOf(step);
    const int64_t halves = HalfEnd(step.chunk) - HalfBegin(step.chunk);
    const int64_t tiles = next != nullptr ? next->chunk.tile_end - next->chunk.tile_begin : 0;
    return halves * (kTileSide + data.steps * 2 * kProducts) + tiles * data.steps * kProducts +
           data.args->rows * kRow;
  }

  // Pairs values of `step` (or none), and computes scores of `next` (or none) from key tile kTile
  // on. A store waits for its products, and what follows in tiles for the store: so it is late.
  template <int kTile>
  void ScoreAndPair(const ChunkStep* step, const ChunkStep* next, KeyFetch* fetch) {
    if (next != nullptr) {
      Score<kTile>(*next, fetch);
      if constexpr (kTile > 0) StoreScores<kTile - 1>(next->chunk);
    }
    if (step != nullptr && kTile / 2 >= HalfBegin(step->chunk) &&
        kTile / 2 < HalfEnd(step->chunk)) {
      PairHalf<kSteps>(DataOf(*step), step->chunk, kTile, [&] { fetch->Some(1); });
    }
    if constexpr (kTile + 1 < kKeyTiles) {
      ScoreAndPair<kTile + 1>(step, next, fetch);
    } else {
      if (next != nullptr) StoreScores<kTile>(next->chunk);
    }
  }

  // As [16 keys, kWide rows], in tile 0 or 1.
  template <int kTile>
  void Score(const ChunkStep& step, KeyFetch* fetch) {
    const AttendData& data = DataOf(step);
    const KeyChunk& chunk = step.chunk;
    if (kTile < chunk.tile_begin || kTile >= chunk.tile_end) return;
    constexpr int kScores = kTile % 2;
    constexpr int64_t kStride = kWide * 4;
    ZeroTile<kScores>();
    for (int64_t i = 0; i < StepsOf<kSteps>(data); ++i) {
      const uint8_t* queries = data.queries + i * 2 * kTileSide * kStride;
      LoadTile<3>(chunk.keys[kTile] + i * 64, chunk.stride);
      LoadTile<2>(queries, kStride);  // high
      AddProductBf16<kScores, 3, 2>();
      if (data.args->precise != 0) {
        LoadTile<2>(queries + kTileSide * kStride, kStride);  // low
        AddProductBf16<kScores, 3, 2>();
      }
      fetch->Some(kProducts);
    }
  }
  template <int kTile>
  void StoreScores(const KeyChunk& chunk) {
    if (kTile < chunk.tile_begin || kTile >= chunk.tile_end) return;
    StoreTile<kTile % 2>(chunk.scores + kTile * kTileSide * kWide, kWide * 4);
  }

  void AddValues(const AttendData& data, const ChunkStep& step, KeyFetch* fetch) {
    if constexpr (kSteps > 0) {
      AddTileValues<0>(data, step, fetch);
    } else {
      for (int64_t tile = 0; tile < data.steps * 2; ++tile) {
        AddTile<5>(data, step, tile, fetch);
        StoreTile<5>(data.sums + tile * kTileFloats, 64);
      }
    }
  }
  // From dim tile kTile on, three at a time in tiles 5 to 7.
  template <int kTile>
  void AddTileValues(const AttendData& data, const ChunkStep& step, KeyFetch* fetch) {
    constexpr int kSums = 5 + kTile % 3;
    constexpr int kBefore = kTile - 3;
    if constexpr (kBefore >= 0 && kBefore < kSteps * 2) {
      StoreTile<kSums>(data.sums + kBefore * kTileFloats, 64);
    }
    if constexpr (kTile < kSteps * 2) AddTile<kSums>(data, step, kTile, fetch);
    if constexpr (kBefore + 1 < kSteps * 2) AddTileValues<kTile + 1>(data, step, fetch);
  }
  template <int kSums>
  void AddTile(const AttendData& data, const ChunkStep& step, int64_t tile, KeyFetch* fetch) {
    if (step.first) {
      ZeroTile<kSums>();
    } else {
      LoadTile<kSums>(data.sums + tile * kTileFloats, 64);
    }
    const int64_t tiles = StepsOf<kSteps>(data) * 2;
    for (int64_t half = HalfBegin(step.chunk); half < HalfEnd(step.chunk); ++half) {
      LoadTile<4>(data.weights + half * kWide * 64, 64);
      LoadTile<3>(step.chunk.paired + (half * tiles + tile) * kTileBytes, 64);
      AddProductBf16<kSums, 4, 3>();
      fetch->Some(kProducts);
    }
  }

  void Finish(const ChunkStep& step) {
    const AttendData& data = DataOf(step);
    __mmask16 bad = 0;
    for (int64_t row = 0; row < data.args->rows; ++row) {
      bad |= FinishRow(data, row, data.sums + row * kLanes);
    }
    if (bad != 0) bad_ |= uint64_t{1} << step.call;
  }

  int64_t count_;
  ChunkWalk walk_;
  ChunkStep steps_[4];  // the at-th in at % 4
  AttendData data_[kSlots];
  uint64_t bad_ = 0;
};

template <int kWide>
static uint64_t AttendFewRows(const AttendArgs* calls, int64_t count, const AttendArgs* after) {
  if (calls->head_dim > 32 && calls->head_dim <= 64) {
    return FewRows<kWide, 2>(calls, count, after).Run();
  }
  if (calls->head_dim > 96 && calls->head_dim <= 128) {
    return FewRows<kWide, 4>(calls, count, after).Run();
  }
  return FewRows<kWide, 0>(calls, count, after).Run();
}

}  // namespace
}  // namespace tandem::ops
