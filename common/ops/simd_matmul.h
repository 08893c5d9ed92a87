// Matrix product with f32 activations over Vec. Included after a vector_*.h, by sources of one
// instruction set; internal linkage.
//
// Each output element is one chain of fused multiply-adds over k in ascending order, from +0, of
// the weight w = fma(q, scale, min) in f32; bias and the old y are added last. Few rows unpack the
// weights in registers, many rows through a tile in scratch: the same chain.
#pragma once

#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

constexpr int64_t kPanelVecs = kPanelColumns / kLanes;

static inline void StoreOutput(const MatmulArgs* args, int64_t row, int64_t column, Vec sum) {
  const int64_t left = args->weights->n - column;
  if (left <= 0) return;
  float* y = args->y + row * args->y_stride + column;
  if (left >= kLanes) {
    if (args->bias != nullptr) sum = Add(sum, Load(args->bias + column));
    if (args->accumulate != 0) sum = Add(Load(y), sum);
    Store(y, sum);
  } else {
    if (args->bias != nullptr) sum = Add(sum, LoadPart(args->bias + column, left));
    if (args->accumulate != 0) sum = Add(LoadPart(y, left), sum);
    StorePart(y, sum, left);
  }
}

// kLanes weights, of floats: `p` points at them. Of int8: times scale plus min.
template <WeightLayout kLayout>
static inline Vec LoadWeight(const uint8_t* p, Vec scale, Vec min) {
  if constexpr (kLayout == WeightLayout::kPanelF32) {
    return Load(reinterpret_cast<const float*>(p));
  } else if constexpr (kLayout == WeightLayout::kPanelF16) {
    return LoadF16(p);
  } else if constexpr (kLayout == WeightLayout::kPanelBf16) {
    return LoadBf16(p);
  } else {
    return Fma(LoadI8(p), scale, min);
  }
}

template <WeightLayout kLayout>
constexpr int64_t kElementBytes = kLayout == WeightLayout::kPanelF32    ? 4
                                  : kLayout == WeightLayout::kPanelInt8 ? 1
                                                                        : 2;

// Walks kVecs vectors of columns, from panel `panel` on, down k: calls step(k, weights).
template <WeightLayout kLayout, int kVecs, typename Step>
static inline void ForEachK(const PackedView& w, int64_t panel, Step&& step) {
  constexpr bool kQuantized = kLayout == WeightLayout::kPanelInt8;
  const int64_t group = kQuantized ? w.group : w.k;
  const uint8_t* base[kVecs];
  for (int v = 0; v < kVecs; ++v) base[v] = w.data + (panel + v / kPanelVecs) * w.panel_bytes;
  for (int64_t first = 0; first < w.k; first += group) {
    const int64_t count = first + group < w.k ? group : w.k - first;
    Vec scale[kVecs];
    Vec min[kVecs];
    const uint8_t* q[kVecs];
    for (int v = 0; v < kVecs; ++v) {
      const int64_t lane = v % kPanelVecs * kLanes;
      q[v] = base[v] + lane * kElementBytes<kLayout>;
      scale[v] = Zero();
      min[v] = Zero();
      if constexpr (kQuantized) {
        const float* factors = reinterpret_cast<const float*>(base[v] + group * kPanelColumns);
        scale[v] = Load(factors + lane);
        if (w.has_min != 0) min[v] = Load(factors + kPanelColumns + lane);
        base[v] += w.block_bytes;
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      Vec weights[kVecs];
      for (int v = 0; v < kVecs; ++v) {
        weights[v] = LoadWeight<kLayout>(q[v] + i * kPanelColumns * kElementBytes<kLayout>,
                                         scale[v], min[v]);
      }
      step(first + i, weights);
    }
  }
}

template <WeightLayout kLayout, int kRows, int kVecs>
static void FusedTile(const MatmulArgs* args, int64_t row, int64_t panel) {
  Vec sum[kRows][kVecs];
  const float* x[kRows];
  for (int r = 0; r < kRows; ++r) {
    x[r] = args->x + (row + r) * args->x_stride;
    for (int v = 0; v < kVecs; ++v) sum[r][v] = Zero();
  }
  ForEachK<kLayout, kVecs>(*args->weights, panel, [&](int64_t k, const Vec* weights) {
    for (int r = 0; r < kRows; ++r) {
      const Vec value = Set(x[r][k]);
      for (int v = 0; v < kVecs; ++v) sum[r][v] = Fma(value, weights[v], sum[r][v]);
    }
  });
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      StoreOutput(args, row + r, panel * kPanelColumns + v * kLanes, sum[r][v]);
    }
  }
}

// `tile` is [k, kVecs * kLanes].
template <int kRows, int kVecs>
static void UnpackedTile(const MatmulArgs* args, int64_t row, int64_t panel, const float* tile) {
  Vec sum[kRows][kVecs];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecs; ++v) sum[r][v] = Zero();
  }
  const float* x = args->x + row * args->x_stride;
  const int64_t stride = args->x_stride;
  for (int64_t k = 0; k < args->weights->k; ++k, tile += kVecs * kLanes) {
    Vec weights[kVecs];
    for (int v = 0; v < kVecs; ++v) weights[v] = Load(tile + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Vec value = Set(x[r * stride + k]);
      for (int v = 0; v < kVecs; ++v) sum[r][v] = Fma(value, weights[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      StoreOutput(args, row + r, panel * kPanelColumns + v * kLanes, sum[r][v]);
    }
  }
}

// Row counts that have a kernel: 12, 8, 6, 4, 2, 1. Others are made up of them.
constexpr int FewerRows(int rows) { return rows > 8 ? 8 : rows > 4 ? 4 : rows / 2; }

template <WeightLayout kLayout, int kRows, int kVecs>
static void FusedRows(const MatmulArgs* args, int64_t row, int64_t panel) {
  for (; row + kRows <= args->rows; row += kRows) {
    FusedTile<kLayout, kRows, kVecs>(args, row, panel);
  }
  if constexpr (kRows > 1) {
    if (row < args->rows) FusedRows<kLayout, FewerRows(kRows), kVecs>(args, row, panel);
  }
}

template <int kRows, int kVecs>
static void UnpackedRows(const MatmulArgs* args, int64_t row, int64_t panel) {
  for (; row + kRows <= args->rows; row += kRows) {
    UnpackedTile<kRows, kVecs>(args, row, panel, args->scratch);
  }
  if constexpr (kRows > 1) {
    if (row < args->rows) UnpackedRows<FewerRows(kRows), kVecs>(args, row, panel);
  }
}

template <WeightLayout kLayout, int kVecs>
static void ManyRows(const MatmulArgs* args, int64_t panel) {
  float* tile = args->scratch;
  ForEachK<kLayout, kVecs>(*args->weights, panel, [&](int64_t k, const Vec* weights) {
    for (int v = 0; v < kVecs; ++v) Store(tile + (k * kVecs + v) * kLanes, weights[v]);
  });
  UnpackedRows<kTileRows, kVecs>(args, 0, panel);
}

template <WeightLayout kLayout>
static void MatmulOfLayout(const MatmulArgs* args) {
  const bool few = args->rows <= kFusedRows;
  const int64_t step = (few ? kFusedVecs : kTileVecs) / kPanelVecs;
  for (int64_t panel, end; args->claim(args->claims, &panel, &end);) {
    for (; panel + step <= end; panel += step) {
      if (few) {
        FusedRows<kLayout, kFusedRows, kFusedVecs>(args, 0, panel);
      } else {
        ManyRows<kLayout, kTileVecs>(args, panel);
      }
    }
    for (; panel < end; ++panel) {
      if (few) {
        FusedRows<kLayout, kFusedRows, kPanelVecs>(args, 0, panel);
      } else {
        ManyRows<kLayout, kPanelVecs>(args, panel);
      }
    }
  }
}

static void MatmulF32(const MatmulArgs* args) {
  switch (args->weights->layout) {
    case WeightLayout::kPanelF32:
      return MatmulOfLayout<WeightLayout::kPanelF32>(args);
    case WeightLayout::kPanelF16:
      return MatmulOfLayout<WeightLayout::kPanelF16>(args);
    case WeightLayout::kPanelBf16:
      return MatmulOfLayout<WeightLayout::kPanelBf16>(args);
    case WeightLayout::kPanelInt8:
      return MatmulOfLayout<WeightLayout::kPanelInt8>(args);
    default:
      __builtin_trap();  // a matrix packed for another class
  }
}

}  // namespace
}  // namespace tandem::ops
