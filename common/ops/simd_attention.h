// Attention over bf16 keys and values, over Vec. Included after a vector_*.h and simd_rows.h, by
// sources of one instruction set; internal linkage.
//
// One pass over the chunks of 64 keys, each unpacked to f32 once for all rows: keys as [head_dim,
// 64], values as [64, head_dim]. A row's arithmetic: score = chain of fused multiply-adds over
// head_dim, times scale; keys it does not see are -infinity; new maximum; exp; sum = rescaled sum +
// lane tree; output = rescaled output, then one fused multiply-add a visible key, ascending.
#pragma once

#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

constexpr int64_t kChunkVecs = kKeyChunk / kLanes;

struct AttendState {
  float* keys;    // [head_dim, kKeyChunk]
  float* values;  // [kKeyChunk, width]
  float* sums;    // [rows, width]: weighted values so far
  float* scores;  // [rows, kKeyChunk]
  float* max;     // [rows]
  float* total;   // [rows]
  int64_t width;  // head_dim rounded up to 16
  int64_t chunk;  // first position of the chunk at hand
};

struct KeyRange {
  int64_t begin;  // within the chunk
  int64_t end;    // <= begin: none visible
};

static inline KeyRange VisibleKeys(const AttendArgs* args, int64_t row, int64_t chunk) {
  int64_t begin = FirstKeyOf(*args, row) - chunk;
  int64_t end = EndKeyOf(*args, row) - chunk;
  if (begin < 0) begin = 0;
  if (end > kKeyChunk) end = kKeyChunk;
  return {begin, end};
}

// Unpacks the chunk's keys [begin, end), those that any row sees. Lanes of other keys hold copies.
static void LoadChunk(const AttendArgs* args, const AttendState& state, int64_t begin,
                      int64_t end) {
  const int64_t head_dim = args->head_dim;
  const uint8_t* key[kKeyChunk];
  for (int64_t i = 0; i < kKeyChunk; ++i) {
    const int64_t clamped = i < begin ? begin : i >= end ? end - 1 : i;
    const int64_t position = state.chunk + clamped;
    key[i] = args->kv + args->block_table[position / args->block_size] * args->block_bytes +
             position % args->block_size * head_dim * 2;
  }
  const int64_t to_value = args->block_size * head_dim * 2;
  for (int64_t dim = 0; dim < head_dim; dim += kLanes) {
    const int64_t left = head_dim - dim;
    const int64_t dims = left < kLanes ? left : kLanes;
    for (int64_t first = begin / kLanes * kLanes; first < end; first += kLanes) {
      Vec rows[kLanes];
      for (int64_t i = 0; i < kLanes; ++i) {
        const uint8_t* p = key[first + i] + dim * 2;
        rows[i] = dims == kLanes ? LoadBf16(p) : LoadBf16Part(p, dims);
      }
      Transpose(rows);
      for (int64_t i = 0; i < dims; ++i) {
        Store(state.keys + (dim + i) * kKeyChunk + first, rows[i]);
      }
    }
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t* p = key[i] + to_value + dim * 2;
      Store(state.values + i * state.width + dim,
            dims == kLanes ? LoadBf16(p) : LoadBf16Part(p, dims));
    }
  }
}

// Scores of kRows rows with every key of the chunk.
template <int kRows>
static void Scores(const AttendArgs* args, const AttendState& state, int64_t row) {
  constexpr int kVecs = 4;
  static_assert(kChunkVecs % kVecs == 0);
  for (int64_t first = 0; first < kKeyChunk; first += kVecs * kLanes) {
    Vec sum[kRows][kVecs];
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVecs; ++v) sum[r][v] = Zero();
    }
    for (int64_t dim = 0; dim < args->head_dim; ++dim) {
      const float* keys = state.keys + dim * kKeyChunk + first;
      Vec key[kVecs];
      for (int v = 0; v < kVecs; ++v) key[v] = Load(keys + v * kLanes);
      for (int r = 0; r < kRows; ++r) {
        const Vec q = Set(args->q[row + r][dim]);
        for (int v = 0; v < kVecs; ++v) sum[r][v] = Fma(q, key[v], sum[r][v]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      float* scores = state.scores + (row + r) * kKeyChunk + first;
      for (int v = 0; v < kVecs; ++v) {
        Store(scores + v * kLanes, Mul(sum[r][v], Set(args->scale)));
      }
    }
  }
}

// Scores become weights; returns what the row's earlier sums are multiplied by.
static float SoftmaxStep(const AttendState& state, int64_t row, KeyRange visible) {
  float* scores = state.scores + row * kKeyChunk;
  Vec weight[kChunkVecs];
  Vec max = Set(state.max[row]);
  for (int64_t v = 0; v < kChunkVecs; ++v) {
    weight[v] = MaskOutside(Load(scores + v * kLanes), v * kLanes, visible.begin, visible.end);
    max = Max(max, weight[v]);
  }
  const float new_max = ReduceMax(max);
  Vec sum = Zero();
  for (int64_t v = 0; v < kChunkVecs; ++v) {
    weight[v] = Exp(Sub(weight[v], Set(new_max)));
    Store(scores + v * kLanes, weight[v]);
    sum = Add(sum, weight[v]);
  }
  float rescale[kLanes];
  Store(rescale, Exp(Set(state.max[row] - new_max)));
  state.max[row] = new_max;
  state.total[row] = state.total[row] * rescale[0] + ReduceAdd(sum);
  return rescale[0];
}

// Adds the chunk's weighted values to kVecs vectors of the outputs of kRows rows.
template <int kRows, int kVecs>
static void AddValues(const AttendState& state, int64_t row, int64_t dim, KeyRange keys,
                      const float* rescale) {
  Vec sum[kRows][kVecs];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      sum[r][v] =
          Mul(Load(state.sums + (row + r) * state.width + dim + v * kLanes), Set(rescale[r]));
    }
  }
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    Vec value[kVecs];
    for (int v = 0; v < kVecs; ++v) {
      value[v] = Load(state.values + key * state.width + dim + v * kLanes);
    }
    for (int r = 0; r < kRows; ++r) {
      const Vec weight = Set(state.scores[(row + r) * kKeyChunk + key]);
      for (int v = 0; v < kVecs; ++v) sum[r][v] = Fma(weight, value[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      Store(state.sums + (row + r) * state.width + dim + v * kLanes, sum[r][v]);
    }
  }
}

// One chunk for `rows` <= kRows rows that see the same of its keys.
template <int kRows>
static void ChunkRows(const AttendArgs* args, const AttendState& state, int64_t row, int64_t rows,
                      KeyRange keys) {
  if (rows == kRows) {
    float rescale[kRows];
    Scores<kRows>(args, state, row);
    for (int r = 0; r < kRows; ++r) rescale[r] = SoftmaxStep(state, row + r, keys);
    int64_t dim = 0;
    for (; dim + 4 * kLanes <= state.width; dim += 4 * kLanes) {
      AddValues<kRows, 4>(state, row, dim, keys, rescale);
    }
    for (; dim < state.width; dim += kLanes) AddValues<kRows, 1>(state, row, dim, keys, rescale);
  } else if constexpr (kRows > 1) {
    ChunkRows<kRows - 1>(args, state, row, rows, keys);
  }
}

static void FinishRow(const AttendArgs* args, const AttendState& state, int64_t row) {
  const Vec total = Set(state.total[row]);
  for (int64_t dim = 0; dim < args->head_dim; dim += kLanes) {
    const Vec v = Div(Load(state.sums + row * state.width + dim), total);
    const int64_t left = args->head_dim - dim;
    if (left >= kLanes) {
      Store(args->out[row] + dim, v);
    } else {
      StorePart(args->out[row] + dim, v, left);
    }
  }
  if (args->base != nullptr) {
    args->base[row] = state.max[row];
    args->total[row] = state.total[row];
  }
}

static AttendState MakeState(const AttendArgs* args) {
  AttendState state;
  state.width = RoundUp(args->head_dim, 16);
  state.keys = args->scratch;
  state.values = state.keys + kKeyChunk * state.width;
  state.sums = state.values + kKeyChunk * state.width;
  state.scores = state.sums + kAttendRows * state.width;
  state.max = state.scores + kAttendRows * kKeyChunk;
  state.total = state.max + kAttendRows;
  state.chunk = 0;
  for (int64_t i = 0; i < args->rows * state.width; ++i) state.sums[i] = 0;
  for (int64_t row = 0; row < args->rows; ++row) {
    state.max[row] = -__builtin_inff();
    state.total[row] = 0;
  }
  return state;
}

static void AttendOne(const AttendArgs* args) {
  AttendState state = MakeState(args);
  const int64_t end = EndKeyOf(*args, args->rows - 1);
  for (state.chunk = FirstKeyOf(*args, 0) / kKeyChunk * kKeyChunk; state.chunk < end;
       state.chunk += kKeyChunk) {
    const int64_t begin = VisibleKeys(args, 0, state.chunk).begin;
    LoadChunk(args, state, begin, VisibleKeys(args, args->rows - 1, state.chunk).end);
    for (int64_t row = 0; row < args->rows;) {
      const KeyRange keys = VisibleKeys(args, row, state.chunk);
      int64_t same = 1;
      while (same < kAttentionRows && row + same < args->rows) {
        const KeyRange next = VisibleKeys(args, row + same, state.chunk);
        if (next.begin != keys.begin || next.end != keys.end) break;
        ++same;
      }
      if (keys.begin < keys.end) ChunkRows<kAttentionRows>(args, state, row, same, keys);
      row += same;
    }
  }
  for (int64_t row = 0; row < args->rows; ++row) FinishRow(args, state, row);
}

static void Attend(const AttendArgs* calls, int64_t count, const AttendArgs*) {
  for (int64_t i = 0; i < count; ++i) AttendOne(calls + i);
}

}  // namespace
}  // namespace tandem::ops
