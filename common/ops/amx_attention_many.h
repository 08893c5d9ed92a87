// AMX attention of any number of rows. Included after amx_attention_rows.h and
// amx_attention_slots.h, by sources built for AMX; internal linkage.
//
// A tile of 16 rows with one chunk of keys is an item: scores = queries x transposed keys, so that
// a row's scores are four vectors; weights; sums += weights x values. The tile products of the item
// before (its values) and of the item after (its scores) are issued between the rows of this one.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

static void StoreQueries(const AttendData& data) {
  for (int64_t row = 0; row < data.query_tiles * kTileSide; ++row) {
    for (int64_t step = 0; step < data.steps; ++step) {
      Vec high, low = Zero();
      SplitQuery(data.args, row, step, &high, &low);
      float* to = reinterpret_cast<float*>(data.queries) +
                  (row / kTileSide * data.steps + step) * 2 * kTileFloats +
                  row % kTileSide * kLanes;
      Store(to, high);
      if (data.args->precise != 0) Store(to + kTileFloats, low);
    }
  }
}

// Four times four dim pairs of four keys, a key after another in each.
static inline Vec LoadFour(const uint8_t* keys, int64_t stride) {
  const auto load = [](const uint8_t* p) {
    return _mm_loadu_ps(reinterpret_cast<const float*>(p));
  };
  Vec v = _mm512_castps128_ps512(load(keys));
  v = _mm512_insertf32x4(v, load(keys + 4 * stride), 1);
  v = _mm512_insertf32x4(v, load(keys + 8 * stride), 2);
  return _mm512_insertf32x4(v, load(keys + 12 * stride), 3);
}

static void TransposeKeys(const AttendData& data, const KeyChunk& chunk) {
  for (int64_t tile = chunk.tile_begin; tile < chunk.tile_end; ++tile) {
    const int64_t stride = chunk.stride;
    float* to = reinterpret_cast<float*>(chunk.transposed + tile * data.steps * kTileBytes);
    for (int64_t four = 0; four < data.steps * 4; ++four, to += 4 * kLanes) {
      const uint8_t* keys = chunk.keys[tile] + four * 16;
      Vec v[4], pairs[4];
      for (int i = 0; i < 4; ++i) v[i] = LoadFour(keys + i * stride, stride);
      TransposeFour(v, pairs);
      for (int i = 0; i < 4; ++i) Store(to + i * kLanes, pairs[i]);
    }
  }
}

static __attribute__((noinline)) void Rescale(const AttendData& data, const AttendItem& item) {
  const float* factors = data.rescale + item.buffer * kTileSide;
  float* sums = data.sums + item.query_tile * data.steps * 2 * kTileFloats;
  for (int64_t row = 0; row < kTileSide; ++row) {
    if (factors[row] != 1.0f) RescaleSums(data, sums + row * kLanes, factors[row]);
  }
}

// Of the rows of an item whose scores are there and that have seen no key before it.
static __attribute__((noinline)) void FindFirstBases(const AttendData& data, const AttendItem& item,
                                                     __mmask16 fresh) {
  const int64_t first_row = item.query_tile * kTileSide;
  const float* scores = data.scores + item.buffer * kKeyTiles * kTileFloats;
  Vec highest[kTileSide];
  for (int64_t i = 0; i < kTileSide; ++i) {
    Vec v[4];
    for (int tile = 0; tile < 4; ++tile) v[tile] = Load(scores + tile * kTileFloats + i * kLanes);
    HideUnseen((fresh >> i & 1) != 0 ? SeenKeys(data, first_row + i, item.chunk->first) : 0, v);
    highest[i] = HighestOf(v);
  }
  Transpose(highest);
  for (int64_t n = kTileSide / 2; n > 0; n /= 2) {
    for (int64_t i = 0; i < n; ++i) highest[i] = Max(highest[i], highest[i + n]);
  }
  FirstBases(data, first_row, fresh, highest[0]);
}

// Weights of an item whose scores are there, with the tile products [begin, end) around it.
template <int kSteps, bool kMasked>
static void Weigh(const AttendData& data, AttendItem* item, TileSlots<kSteps>* slots, int64_t begin,
                  int64_t end) {
  const int64_t first_row = item->query_tile * kTileSide;
  const int64_t rows = data.args->rows - first_row;
  const float* scores = data.scores + item->buffer * kKeyTiles * kTileFloats;
  uint8_t* weights = data.weights + item->buffer * 2 * kTileBytes;
  float* factors = data.rescale + item->buffer * kTileSide;
  Store(factors, Set(1.0f));
  const __mmask16 fresh = FreshRows(data, first_row);
  if (fresh != 0) FindFirstBases(data, *item, fresh);
  const auto load = [&](int64_t i, Vec * v) __attribute__((always_inline)) {
    for (int tile = 0; tile < 4; ++tile) v[tile] = Load(scores + tile * kTileFloats + i * kLanes);
    if constexpr (kMasked) HideUnseen(SeenKeys(data, first_row + i, item->chunk->first), v);
  };
  uint32_t moving = 0;  // rows for later: with calls in between, each would load its constants anew
  const auto weigh = [&](int64_t i) __attribute__((always_inline)) {
    Vec v[4];
    load(i, v);
    const bool fits = WeighWithBase<false>(data, first_row + i, v, weights + i * 64, kTileBytes);
    if (!fits) moving |= 1u << i;
  };
  constexpr int64_t kSlots = TileSlots<kSteps>::kCount / kTileSide;  // a row
  static_assert(TileSlots<kSteps>::kCount % kTileSide == 0 && kSlots <= 2);
  if (kSlots > 0 && rows >= kTileSide && end - begin == kSlots * kTileSide) {
#pragma GCC unroll 16
    for (int64_t i = 0; i < kTileSide; ++i) {
      slots->Run(i * kSlots);
      if constexpr (kSlots > 1) slots->Run(i * kSlots + 1);
      weigh(i);
    }
  } else {
    int64_t done = begin;
    for (int64_t i = 0; i < kTileSide; ++i) {
      for (; done < begin + (end - begin) * (i + 1) / kTileSide; ++done) slots->Run(done);
      if (i < rows) weigh(i);
    }
  }
  for (; moving != 0; moving &= moving - 1) {
    const int64_t i = __builtin_ctz(moving);
    Vec v[4];
    load(i, v);
    WeighRow(data, first_row + i, v, weights + i * 64, kTileBytes, factors + i);
    item->moves = true;
  }
}

// Items in order, each one's weights while its neighbours' tile products run.
template <int kSteps>
class ItemPipeline {
 public:
  explicit ItemPipeline(const AttendData& data) : data_(data), slots_(data) {}

  // The next item, to be filled in.
  AttendItem* next() { return &items_[count_ % 3]; }
  // next() is filled in: works on the item before it.
  void Advance() {
    AttendItem* after = next();
    after->buffer = count_ % 2;
    Run(after);
  }
  void Finish() {
    Run(nullptr);
    Run(nullptr);
  }

 private:
  void Run(const AttendItem* after) {
    const int64_t count = count_++;
    AttendItem* item = count > 0 ? &items_[(count - 1) % 3] : nullptr;
    const AttendItem* before = count > 1 ? &items_[(count - 2) % 3] : nullptr;
    if (finished_) item = nullptr;
    finished_ = after == nullptr;
    slots_.Start(before, after);
    const int64_t begin = after != nullptr ? 0 : slots_.scores();
    const int64_t end = before != nullptr ? slots_.count() : slots_.scores();
    if (before != nullptr && before->moves) {
      slots_.StoreSums();
      Rescale(data_, *before);
    } else if (after == nullptr) {
      slots_.StoreSums();
    }
    if (item == nullptr) {
      for (int64_t slot = begin; slot < end; ++slot) slots_.Run(slot);
    } else if (item->masked) {
      Weigh<kSteps, true>(data_, item, &slots_, begin, end);
    } else {
      Weigh<kSteps, false>(data_, item, &slots_, begin, end);
    }
    if (before == nullptr && after != nullptr) slots_.StoreScores();
    if (item == nullptr && before != nullptr) slots_.StoreSums();
  }

  const AttendData& data_;
  TileSlots<kSteps> slots_;
  AttendItem items_[3];
  int64_t count_ = 0;
  bool finished_ = false;
};

// Returns whether any row of the tile sees a key of the chunk.
static bool MakeItem(const AttendData& data, const KeyChunk& chunk, int64_t query_tile,
                     AttendItem* item) {
  const int64_t first_row = query_tile * kTileSide;
  const int64_t last_row =
      first_row + kTileSide < data.args->rows ? first_row + kTileSide - 1 : data.args->rows - 1;
  const int64_t begin = data.begin[first_row] - chunk.first;  // ascending, as is end
  const int64_t end = data.end[last_row] - chunk.first;
  if (begin >= kKeyChunk || end <= 0) return false;
  item->chunk = &chunk;
  item->query_tile = query_tile;
  item->begin = begin > 0 ? begin / kTileSide : 0;
  item->end = end < kKeyChunk ? (end + kTileSide - 1) / kTileSide : kKeyTiles;
  item->masked =
      data.begin[last_row] > chunk.first || data.end[first_row] < chunk.first + kKeyChunk;
  item->moves = false;
  return true;
}

static void ConfigureWholeTiles() {
  TileShapes shapes;
  for (int tile = 0; tile < 8; ++tile) shapes.SetTile(tile, kTileSide);
  ConfigureTiles(shapes);
}

// Returns whether every output is finite.
template <int kSteps>
static bool AttendManyRows(const AttendArgs* args) {
  const AttendData data = MakeAttendData(args);
  ConfigureWholeTiles();
  StoreQueries(data);
  for (int64_t i = 0; i < data.query_tiles * data.steps * 2 * kTileSide; ++i) {
    Store(data.sums + i * kLanes, Zero());
  }
  KeyChunk chunks[2];
  ItemPipeline<kSteps> pipeline(data);
  const int64_t begin = FirstKey(args), end = EndKey(args);
  int64_t slot = 0;
  for (int64_t first = begin / kKeyChunk * kKeyChunk; first < end; first += kKeyChunk) {
    KeyChunk& chunk = chunks[slot];
    FindKeys(args, first, &chunk);
    CopyKeys(data, &chunk, data.copies);
    chunk.transposed = data.keys;
    chunk.paired = data.values + slot * 4 * data.steps * kTileBytes;
    TransposeKeys(data, chunk);
    bool paired = false;
    for (int64_t tile = 0; tile < data.query_tiles; ++tile) {
      if (!MakeItem(data, chunk, tile, pipeline.next())) continue;
      pipeline.Advance();
      // Only now: the last item of two chunks ago needed its values until here.
      if (!paired) PairValues<kSteps>(data, chunk);
      paired = true;
    }
    slot = 1 - slot;
  }
  pipeline.Finish();
  __mmask16 bad = 0;
  for (int64_t row = 0; row < args->rows; ++row) {
    bad |= FinishRow(
        data, row,
        data.sums + row / kTileSide * data.steps * 2 * kTileFloats + row % kTileSide * kLanes);
  }
  return bad == 0;
}

}  // namespace
}  // namespace tandem::ops
