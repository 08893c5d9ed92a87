// AMX attention of any number of rows. Included after amx_attention_data.h, by sources built for
// AMX; internal linkage.
//
// A tile of 16 rows with one chunk of keys is an item: scores = keys x queries, so that a row is a
// vector lane; weights; sums += transposed values x weights. The tile products of the item before
// (its values) and of the item after (its scores) are issued between the exponentials of this one.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

struct AttendItem {
  const KeyChunk* chunk;
  int64_t query_tile;
  int64_t begin;  // key tiles that any of its rows sees
  int64_t end;
  int64_t buffer;  // of scores, weights, rescale: 0 or 1
  bool masked;     // some row does not see all 64 keys
  bool grows;      // sums are to be rescaled
};

static inline __m512i Gather4(const uint8_t* a, const uint8_t* b, const uint8_t* c,
                              const uint8_t* d) {
  const auto load = [](const uint8_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  };
  __m512i lanes = _mm512_castsi128_si512(load(a));
  lanes = _mm512_inserti32x4(lanes, load(b), 1);
  lanes = _mm512_inserti32x4(lanes, load(c), 2);
  return _mm512_inserti32x4(lanes, load(d), 3);
}

// 32 keys by 8 dims at a time: each 128-bit lane transposes 8 by 8.
static void TransposeValues(const AttendData& data, const KeyChunk& chunk) {
  for (int64_t half = chunk.tile_begin / 2; half < RoundUp(chunk.tile_end, 2) / 2; ++half) {
    const uint8_t* a = chunk.values[2 * half];
    const uint8_t* b = chunk.values[2 * half + 1];
    const int64_t a_stride = chunk.value_stride[2 * half];
    const int64_t b_stride = chunk.value_stride[2 * half + 1];
    uint8_t* to = chunk.transposed + half * data.dim_tiles * kTileBytes;
    for (int64_t dim = 0; dim < data.dim_tiles; dim += 1) {
      for (int64_t part = 0; part < 2; ++part, a += 16, b += 16, to += kTileBytes / 2) {
        __m512i r[8], t[8];
        for (int i = 0; i < 8; ++i) {
          r[i] = Gather4(a + i * a_stride, a + (i + 8) * a_stride, b + i * b_stride,
                         b + (i + 8) * b_stride);
        }
        for (int i = 0; i < 8; i += 2) {
          t[i] = _mm512_unpacklo_epi16(r[i], r[i + 1]);
          t[i + 1] = _mm512_unpackhi_epi16(r[i], r[i + 1]);
        }
        for (int i = 0; i < 8; i += 4) {
          r[i] = _mm512_unpacklo_epi32(t[i], t[i + 2]);
          r[i + 1] = _mm512_unpackhi_epi32(t[i], t[i + 2]);
          r[i + 2] = _mm512_unpacklo_epi32(t[i + 1], t[i + 3]);
          r[i + 3] = _mm512_unpackhi_epi32(t[i + 1], t[i + 3]);
        }
        for (int i = 0; i < 4; ++i) {
          _mm512_storeu_si512(to + 2 * i * 64, _mm512_unpacklo_epi64(r[i], r[i + 4]));
          _mm512_storeu_si512(to + (2 * i + 1) * 64, _mm512_unpackhi_epi64(r[i], r[i + 4]));
        }
      }
    }
  }
}

// Scores of key tile kTile, one 32nd of head_dim.
template <int kTile>
static inline void ScoreSlot(const AttendData& data, const AttendItem& item, int64_t step) {
  constexpr int kKeys = 6 + kTile % 2;
  if constexpr (kTile == 0) {
    const uint8_t* queries = data.queries + (item.query_tile * data.steps + step) * 2 * kTileBytes;
    LoadTile<4>(queries, 64);
    LoadTile<5>(queries + kTileBytes, 64);
  }
  if (kTile < item.begin || kTile >= item.end) return;
  if (step == 0) ZeroTile<kTile>();
  LoadTile<kKeys>(item.chunk->keys[kTile] + step * 64, item.chunk->key_stride[kTile]);
  AddProductBf16<kTile, kKeys, 4>();
  AddProductBf16<kTile, kKeys, 5>();
  if (step == data.steps - 1) {
    StoreTile<kTile>(data.scores + (item.buffer * kKeyTiles + kTile) * kTileFloats, 64);
  }
}

// Weighted values of a dim tile, one half of the keys: round = dim tiles / 4 * 2 + half.
template <int kTile>
static inline void ValueSlot(const AttendData& data, const AttendItem& item, int64_t round) {
  constexpr int kValues = 6 + kTile % 2;
  const int64_t half = round % 2;
  const int64_t dim_tile = round / 2 * 4 + kTile;
  if (half < item.begin / 2 || half > (item.end - 1) / 2) return;
  if constexpr (kTile == 0) {
    const uint8_t* weights = data.weights + (item.buffer * 2 + half) * 2 * kTileBytes;
    LoadTile<4>(weights, 64);
    LoadTile<5>(weights + kTileBytes, 64);
  }
  if (dim_tile >= data.dim_tiles) return;
  float* sums = data.sums + (item.query_tile * data.dim_tiles + dim_tile) * kTileFloats;
  if (half == item.begin / 2) LoadTile<kTile>(sums, 64);
  LoadTile<kValues>(item.chunk->transposed + (half * data.dim_tiles + dim_tile) * kTileBytes, 64);
  AddProductBf16<kTile, kValues, 4>();
  AddProductBf16<kTile, kValues, 5>();
  if (half == (item.end - 1) / 2) StoreTile<kTile>(sums, 64);
}

static void Rescale(const AttendData& data, const AttendItem& item) {
  const Vec factor = Load(data.rescale + item.buffer * kTileSide);
  float* sums = data.sums + item.query_tile * data.dim_tiles * kTileFloats;
  for (int64_t i = 0; i < data.dim_tiles * kTileSide; ++i) {
    Store(sums + i * kLanes, WithoutDenormals(Mul(Load(sums + i * kLanes), factor)));
  }
}

// The tile products to issue during an item, in slots of two: so many that few wait at a time.
struct TileWork {
  const AttendData& data;
  const AttendItem* before;  // whose values are due, or null
  const AttendItem* after;   // whose scores are due, or null
  int64_t value_slots;
  int64_t slots;
  int64_t done;

  template <int kTile>
  inline void Slot() {
    if (done < value_slots) {
      ValueSlot<kTile>(data, *before, done / 4);
    } else {
      ScoreSlot<kTile>(data, *after, (done - value_slots) / 4);
    }
    ++done;
  }
  inline void Until(int64_t end) {
    while (done < end) {
      switch (done % 4) {
        case 0:
          Slot<0>();
          break;
        case 1:
          Slot<1>();
          break;
        case 2:
          Slot<2>();
          break;
        default:
          Slot<3>();
          break;
      }
    }
  }
};

static inline TileWork StartTileWork(const AttendData& data, const AttendItem* before,
                                     const AttendItem* after) {
  const int64_t value_slots = before != nullptr ? RoundUp(data.dim_tiles, 4) * 2 : 0;
  const int64_t score_slots = after != nullptr ? data.steps * kKeyTiles : 0;
  if (before != nullptr && before->grows) Rescale(data, *before);
  return {data, before, after, value_slots, value_slots + score_slots, 0};
}

// Scores of one item, where its rows see them.
template <bool kMasked>
struct ItemScores {
  const float* scores;  // [64 keys, 16 rows]
  __m512i begin;        // of each row, within the chunk
  __m512i end;

  inline Vec At(int64_t key) const {
    const Vec score = Load(scores + key * kTileSide);
    if constexpr (!kMasked) return score;
    const __m512i index = _mm512_set1_epi32(static_cast<int>(key));
    const __mmask16 seen =
        _mm512_mask_cmplt_epi32_mask(_mm512_cmple_epi32_mask(begin, index), index, end);
    return _mm512_mask_mov_ps(Set(-__builtin_inff()), seen, score);
  }
};

template <bool kMasked>
static ItemScores<kMasked> ScoresOf(const AttendData& data, const AttendItem& item) {
  const __m512i first = _mm512_set1_epi32(static_cast<int>(item.chunk->first));
  const int64_t lane = item.query_tile * kTileSide;
  return {data.scores + item.buffer * kKeyTiles * kTileFloats,
          _mm512_sub_epi32(_mm512_loadu_si512(data.begin + lane), first),
          _mm512_sub_epi32(_mm512_loadu_si512(data.end + lane), first)};
}

// Moves the rows' `max` where the item's scores ask for it.
template <bool kMasked>
static inline void UpdateMax(const AttendData& data, const ItemScores<kMasked>& scores,
                             AttendItem* item) {
  Vec seen[4];
  for (Vec& v : seen) v = Set(-__builtin_inff());
  for (int64_t key = item->begin * kTileSide; key < item->end * kTileSide; key += 4) {
    for (int i = 0; i < 4; ++i) seen[i] = Max(scores.At(key + i), seen[i]);
  }
  const Vec highest = Max(Max(seen[0], seen[1]), Max(seen[2], seen[3]));
  float* max = data.max + item->query_tile * kTileSide;
  const Vec old = Load(max);
  const __mmask16 grows = _mm512_cmp_ps_mask(highest, Add(old, Set(kMaxGrowth)), _CMP_GT_OQ);
  item->grows = grows != 0;
  if (grows == 0) return;
  const Vec moved = _mm512_mask_mov_ps(old, grows, highest);
  const Vec factor = _mm512_mask_mov_ps(Set(1.0f), grows, Exp2(Sub(old, moved)));
  float* total = data.total + item->query_tile * kTileSide;
  Store(total, Mul(Load(total), factor));
  Store(data.rescale + item->buffer * kTileSide, factor);
  Store(max, moved);
}

// Two keys' weights, cut into upper halves (bf16) and the rounded rest, side by side.
static inline void StoreWeights(Vec even, Vec odd, uint8_t* to) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i even_bits = _mm512_castps_si512(even), odd_bits = _mm512_castps_si512(odd);
  const __m512i even_high = _mm512_and_si512(even_bits, upper);
  const __m512i odd_high = _mm512_and_si512(odd_bits, upper);
  const __m512i even_low =
      _mm512_add_epi32(_mm512_castps_si512(Sub(even, _mm512_castsi512_ps(even_high))), half);
  const __m512i odd_low =
      _mm512_add_epi32(_mm512_castps_si512(Sub(odd, _mm512_castsi512_ps(odd_high))), half);
  constexpr int kFirstAndSecondOrThird = 0xea;
  _mm512_storeu_si512(to, _mm512_or_si512(odd_high, _mm512_srli_epi32(even_bits, 16)));
  _mm512_storeu_si512(to + kTileBytes,
                      _mm512_ternarylogic_epi32(upper, odd_low, _mm512_srli_epi32(even_low, 16),
                                                kFirstAndSecondOrThird));
}

// Weights of an item whose scores are there, with the tile products around it.
template <bool kMasked>
static void Weigh(const AttendData& data, const AttendItem* before, AttendItem* item,
                  const AttendItem* after) {
  const ItemScores<kMasked> scores = ScoresOf<kMasked>(data, *item);
  UpdateMax(data, scores, item);
  TileWork work = StartTileWork(data, before, after);
  Vec max = Load(data.max + item->query_tile * kTileSide);
  if constexpr (kMasked) {  // rows that have seen no key yet: 2^(-infinity - 0) is 0
    const __mmask16 none = _mm512_cmp_ps_mask(max, Set(-__builtin_inff()), _CMP_EQ_OQ);
    max = _mm512_mask_mov_ps(max, none, Zero());
  }
  Vec sum[4] = {Zero(), Zero(), Zero(), Zero()};
  for (int64_t key = 0; key < kKeyChunk; key += 4) {
    const int64_t tile = key / kTileSide;
    uint8_t* to = data.weights + (item->buffer * 4 + tile / 2 * 2) * kTileBytes + key % 32 * 32;
    if (tile >= item->begin && tile < item->end) {
      for (int i = 0; i < 4; i += 2) {
        const Vec even = Exp2(Sub(scores.At(key + i), max));
        const Vec odd = Exp2(Sub(scores.At(key + i + 1), max));
        sum[i] = Add(sum[i], even);
        sum[i + 1] = Add(sum[i + 1], odd);
        StoreWeights(even, odd, to + i * 32);
      }
    } else if ((tile ^ 1) >= item->begin && (tile ^ 1) < item->end) {
      for (int i = 0; i < 4; i += 2) StoreWeights(Zero(), Zero(), to + i * 32);
    }
    work.Until((key / 4 + 1) * work.slots / 16);
  }
  float* total = data.total + item->query_tile * kTileSide;
  Store(total, Add(Load(total), Add(Add(sum[0], sum[1]), Add(sum[2], sum[3]))));
}

// Items in order, each one's exponentials while its neighbours' tile products run.
struct ItemPipeline {
  AttendItem items[3];
  int64_t count = 0;
};

// The item at `count` is new (or there is none): works on the one before it.
static void Advance(const AttendData& data, ItemPipeline* pipeline, bool more) {
  const int64_t count = pipeline->count++;
  const AttendItem* after = more ? &pipeline->items[count % 3] : nullptr;
  const AttendItem* before = count > 1 ? &pipeline->items[(count - 2) % 3] : nullptr;
  if (count == 0) {
    TileWork work = StartTileWork(data, nullptr, after);
    work.Until(work.slots);
    return;
  }
  AttendItem* item = &pipeline->items[(count - 1) % 3];
  if (item->masked) {
    Weigh<true>(data, before, item, after);
  } else {
    Weigh<false>(data, before, item, after);
  }
}

static void Finish(const AttendData& data, ItemPipeline* pipeline) {
  Advance(data, pipeline, false);
  TileWork work = StartTileWork(data, &pipeline->items[(pipeline->count - 2) % 3], nullptr);
  work.Until(work.slots);
}

// Returns whether every output is finite.
static bool FinishRows(const AttendData& data) {
  const AttendArgs* args = data.args;
  __mmask16 bad = 0;
  for (int64_t tile = 0; tile < data.query_tiles; ++tile) {
    const Vec total = Load(data.total + tile * kTileSide);
    const int64_t left_rows = args->rows - tile * kTileSide;
    const int64_t rows = left_rows < kTileSide ? left_rows : kTileSide;
    for (int64_t dim_tile = 0; dim_tile < data.dim_tiles; ++dim_tile) {
      const float* sums = data.sums + (tile * data.dim_tiles + dim_tile) * kTileFloats;
      Vec out[kTileSide];
      for (int64_t i = 0; i < kTileSide; ++i) {
        // A product with zero weights turns -0 into 0: so do all.
        out[i] = Div(Add(Load(sums + i * kLanes), Zero()), total);
      }
      Transpose(out);
      const int64_t dim = dim_tile * kTileSide;
      for (int64_t i = 0; i < rows; ++i) {
        bad |= StoreDims(args->out[tile * kTileSide + i] + dim, out[i], args->head_dim - dim);
      }
    }
  }
  return bad == 0;
}

// Returns whether any row of the tile sees a key of the chunk.
static bool MakeItem(const AttendData& data, const KeyChunk& chunk, int64_t query_tile,
                     AttendItem* item) {
  const int32_t* begin = data.begin + query_tile * kTileSide;  // ascending, as is end
  const int32_t* end = data.end + query_tile * kTileSide;
  const int64_t first = chunk.first, last = chunk.first + kKeyChunk;
  if (begin[0] >= last || end[kTileSide - 1] <= first) return false;
  item->chunk = &chunk;
  item->query_tile = query_tile;
  item->begin = begin[0] > first ? (begin[0] - first) / kTileSide : 0;
  item->end = end[kTileSide - 1] < last ? (end[kTileSide - 1] - first + kTileSide - 1) / kTileSide
                                        : kKeyTiles;
  item->masked = begin[kTileSide - 1] > first || end[0] < last;
  item->grows = false;
  return true;
}

static void ConfigureWholeTiles() {
  TileShapes shapes;
  for (int tile = 0; tile < 8; ++tile) shapes.SetTile(tile, kTileSide);
  ConfigureTiles(shapes);
}

// Returns whether every output is finite.
static bool AttendManyRows(const AttendArgs* args) {
  const AttendData data = MakeAttendData(args);
  ConfigureWholeTiles();
  SplitQueries(data);
  const int64_t begin = data.begin[0], end = data.end[args->rows - 1];
  KeyChunk chunks[2];
  ItemPipeline pipeline;
  int64_t slot = 0;
  for (int64_t first = begin / kKeyChunk * kKeyChunk; first < end; first += kKeyChunk) {
    KeyChunk& chunk = chunks[slot];
    chunk.first = first;
    chunk.transposed = data.values + slot * 2 * data.dim_tiles * kTileBytes;
    FindKeys(data, slot, begin > first ? begin - first : 0,
             end - first < kKeyChunk ? end - first : kKeyChunk, &chunk);
    bool transposed = false;
    for (int64_t tile = 0; tile < data.query_tiles; ++tile) {
      AttendItem* item = &pipeline.items[pipeline.count % 3];
      if (!MakeItem(data, chunk, tile, item)) continue;
      item->buffer = pipeline.count % 2;
      Advance(data, &pipeline, true);
      // Only now: the last item of two chunks ago needed its values until here.
      if (!transposed) TransposeValues(data, chunk);
      transposed = true;
    }
    slot = 1 - slot;
  }
  Finish(data, &pipeline);
  return FinishRows(data);
}

}  // namespace
}  // namespace tandem::ops
