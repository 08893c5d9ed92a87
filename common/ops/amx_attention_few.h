// AMX attention of at most 8 rows a call, as in decoding: the bytes of amx_attention_many.h's.
// Included after amx_attention_rows.h and amx_attention_fetch.h, by sources built for AMX; internal
// linkage.
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
// Shares of what is fetched: in the time of a few products, and of one row's weights.
constexpr int64_t kProducts = 4;
constexpr int64_t kRow = 8;

// Tiles 0, 1: scores. 2: queries. 3: keys, values. 4: weights. 5, 6, 7: sums.
static void ConfigureForFewRows(int rows) {
  TileShapes shapes;
  for (int tile = 0; tile < 3; ++tile) shapes.SetTile(tile, 16, rows * 4);
  shapes.SetTile(3, 16);
  for (int tile = 4; tile < 8; ++tile) shapes.SetTile(tile, rows);
  ConfigureTiles(shapes);
}

// Four rows of 16 pairs to 16 pairs of four rows.
static inline void TransposeRows(const Vec* rows, Vec* pairs) {
  Vec t[4];
  TransposeFour(rows, t);  // t[i], lane l: pair 4 l + i
  const Vec a = _mm512_shuffle_f32x4(t[0], t[1], 0x44), b = _mm512_shuffle_f32x4(t[2], t[3], 0x44);
  const Vec c = _mm512_shuffle_f32x4(t[0], t[1], 0xee), d = _mm512_shuffle_f32x4(t[2], t[3], 0xee);
  pairs[0] = _mm512_shuffle_f32x4(a, b, 0x88);
  pairs[1] = _mm512_shuffle_f32x4(a, b, 0xdd);
  pairs[2] = _mm512_shuffle_f32x4(c, d, 0x88);
  pairs[3] = _mm512_shuffle_f32x4(c, d, 0xdd);
}

// As [steps, 2 (high, low), 16 dim pairs, kWide rows, 2] bf16.
template <int kWide>
static void StoreFewQueries(const AttendData& data) {
  for (int64_t step = 0; step < data.steps; ++step) {
    Vec parts[2][kWide];
    for (int64_t row = 0; row < kWide; ++row) {
      parts[0][row] = parts[1][row] = Zero();
      if (row < data.args->rows) {
        SplitQuery(data.args, row, step, &parts[0][row], &parts[1][row]);
      }
    }
    for (int64_t part = 0; part < 2; ++part) {
      float* to = reinterpret_cast<float*>(data.queries) + (step * 2 + part) * kTileSide * kWide;
      for (int64_t four = 0; four < kWide; four += 4) {
        Vec pairs[4];
        TransposeRows(parts[part] + four, pairs);
        for (int64_t i = 0; i < 4; ++i) {
          if constexpr (kWide == 4) {
            Store(to + i * kLanes, pairs[i]);
          } else {
            float* rows = to + i * 4 * kWide + four;
            _mm_storeu_ps(rows, _mm512_castps512_ps128(pairs[i]));
            _mm_storeu_ps(rows + kWide, _mm512_extractf32x4_ps(pairs[i], 1));
            _mm_storeu_ps(rows + kWide * 2, _mm512_extractf32x4_ps(pairs[i], 2));
            _mm_storeu_ps(rows + kWide * 3, _mm512_extractf32x4_ps(pairs[i], 3));
          }
        }
      }
    }
  }
}

// The scores of each row with a key tile's 16 keys: [kWide rows][4 key tiles].
template <int kWide>
static inline void LoadFewScores(const float* scores, int64_t tile, Vec (*rows)[4]) {
  Vec v[kWide], r[kWide];
  for (int i = 0; i < kWide; ++i) v[i] = Load(scores + (tile * kWide + i) * kLanes);
  for (int i = 0; i < kWide; i += 4) TransposeFour(v + i, r + i);
  if constexpr (kWide == 4) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (int i = 0; i < 4; ++i) rows[i][tile] = _mm512_permutexvar_ps(order, r[i]);
  } else {
    const __m512i low = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 16, 24, 17, 25, 18, 26, 19, 27);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(4));
    for (int i = 0; i < 4; ++i) {
      rows[i][tile] = _mm512_permutex2var_ps(r[i], low, r[i + 4]);
      rows[i + 4][tile] = _mm512_permutex2var_ps(r[i], high, r[i + 4]);
    }
  }
}

// Of a call's first chunk.
template <int kWide>
static inline void FindFirstBases(const AttendData& data, const KeyChunk& chunk,
                                  const Vec (*scores)[4]) {
  Vec highest[kWide];
  for (int64_t row = 0; row < kWide; ++row) {
    Vec v[4] = {scores[row][0], scores[row][1], scores[row][2], scores[row][3]};
    HideUnseen(row < data.args->rows ? SeenKeys(data, row, chunk.first) : 0, v);
    highest[row] = HighestOf(v);
  }
  Vec lanes[2];  // 4 rows, four times over
  for (int64_t i = 0; i < 2; ++i) {
    Vec v[4];
    TransposeFour(highest + (kWide == 8 ? i * 4 : 0), v);
    Vec h = HighestOf(v);
    h = Max(h, _mm512_shuffle_f32x4(h, h, 0x4e));
    lanes[i] = Max(h, _mm512_shuffle_f32x4(h, h, 0xb1));
  }
  FirstBases(data, 0, FirstLanes(data.args->rows),
             _mm512_insertf32x4(lanes[0], _mm512_castps512_ps128(lanes[1]), 1));
}

// Weights of a chunk, [2, kWide rows, 32 keys]; rescales the sums so far where that is due.
template <int kWide, bool kMasked>
static inline void WeighFew(const AttendData& data, const KeyChunk& chunk, const float* stored,
                            bool first, KeyFetch* fetch) {
  Vec scores[kWide][4];
  for (int64_t tile = 0; tile < kKeyTiles; ++tile) LoadFewScores<kWide>(stored, tile, scores);
  if (first) FindFirstBases<kWide>(data, chunk, scores);
  for (int64_t row = 0; row < data.args->rows; ++row) {
    if constexpr (kMasked) HideUnseen(SeenKeys(data, row, chunk.first), scores[row]);
    const bool none = data.limit[row] < 0;  // so far: there are no sums
    float factor;
    const bool moves =
        WeighRow(data, row, scores[row], data.weights + row * 64, kWide * 64, &factor);
    if (moves && !none) RescaleSums(data, data.sums + row * kLanes, factor);
    fetch->Some(kRow);
  }
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
