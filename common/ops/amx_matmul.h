// Matrix product of quantised weights with two planes of int8 activations in AMX tiles: the bytes
// of simd_int_matmul.h's, many rows at a time. Included after it, by sources built for AMX;
// internal linkage.
//
// A panel (16 columns) is unpacked to signed bytes in scratch; then 16 rows at a time are
// multiplied with it group by group: one tile product for each plane, stored, and added up by
// vectors while the next group's products run.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

constexpr int kTileHeight = 16;

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes[16] = {};  // of a row
  uint8_t rows[16] = {};
};

// Tiles 0..3: dot products [rows, 16] int32, of two groups by two planes. 4, 5: activations
// [rows, group] int8, high and low. 6: weights [group / 4, 16, 4] int8.
static void ConfigureForProducts(int64_t rows, int64_t group) {
  TileConfig config;
  for (int tile = 0; tile < 4; ++tile) {
    config.rows[tile] = static_cast<uint8_t>(rows);
    config.bytes[tile] = 64;
  }
  for (int tile = 4; tile < 6; ++tile) {
    config.rows[tile] = static_cast<uint8_t>(rows);
    config.bytes[tile] = static_cast<uint16_t>(group);
  }
  config.rows[6] = static_cast<uint8_t>(group / 4);
  config.bytes[6] = 64;
  _tile_loadconfig(&config);
}

// What UnpackPanel leaves in scratch.
struct UnpackedPanel {
  int8_t* q;       // [groups, group / 4, 16, 4]
  float* factors;  // [groups, 16] scales, each followed by [16] mins where there are any
};

template <IntWeights kWeights>
static void UnpackPanel(const PackedView& w, int64_t panel, const UnpackedPanel& out) {
  constexpr int kFactors = HasMin(kWeights) ? 2 : 1;
  constexpr int kSteps = GroupOf(kWeights) / 4;
  const uint8_t* block = w.data + panel * w.panel_bytes;
  int8_t* q = out.q;
  float* factors = out.factors;
  for (int64_t group = 0; group < w.group_count; ++group) {
    for (int step = 0; step < kSteps; ++step, q += 64) {
      __m512i quads = LoadQuads<kWeights>(block, step);
      if constexpr (kWeights == IntWeights::kNibble32) {
        quads = _mm512_sub_epi8(quads, _mm512_set1_epi8(8));
      } else if constexpr (!HasMin(kWeights)) {
        quads = _mm512_xor_si512(quads, _mm512_set1_epi8(-128));
      }
      _mm512_storeu_si512(q, quads);
    }
    const float* from = reinterpret_cast<const float*>(block + ValueBytes(kWeights));
    for (int i = 0; i < kFactors; ++i, factors += kPanelColumns) {
      Store(factors, Load(from + i * kPanelColumns));
    }
    block += BlockBytes(kWeights);
  }
}

struct alignas(64) TileDots {
  int32_t high[kTileHeight][kPanelColumns];
  int32_t low[kTileHeight][kPanelColumns];
};

template <int kParity>
static inline void MultiplyGroup(const int8_t* high, const int8_t* low, int64_t stride,
                                 const int8_t* weights, TileDots* dots) {
  _tile_loadd(4, high, stride);
  _tile_loadd(5, low, stride);
  _tile_loadd(6, weights, 64);
  if constexpr (kParity == 0) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 5, 6);
    _tile_stored(0, dots->high, 64);
    _tile_stored(1, dots->low, 64);
  } else {
    _tile_zero(2);
    _tile_zero(3);
    _tile_dpbssd(2, 4, 6);
    _tile_dpbssd(3, 5, 6);
    _tile_stored(2, dots->high, 64);
    _tile_stored(3, dots->low, 64);
  }
}

// `rows` <= kRows rows from `row` on with one panel; of the sums, those from `first_stored` on are
// written: tiles at the end of many rows overlap, and a row's sum is the same in each.
template <IntWeights kWeights, int kRows>
static void AmxTile(const MatmulArgs* args, int64_t row, int64_t rows, int64_t first_stored,
                    int64_t panel, const UnpackedPanel& unpacked) {
  constexpr int kGroup = GroupOf(kWeights);
  constexpr int kFactors = HasMin(kWeights) ? 2 : 1;
  const int64_t count = args->weights->group_count;
  const int64_t groups = args->xq_groups;
  const int64_t stride = groups * kActivationGroup;  // bytes
  const int8_t* high = args->xq.q + row * stride;
  const int8_t* low = args->xq.low + row * stride;
  const float* scale[kRows];
  const float* total[kRows];
  Vec sum[kRows];
  for (int r = 0; r < kRows; ++r) {
    const int64_t at = (row + (r < rows ? r : rows - 1)) * groups;
    scale[r] = args->xq.scale + at;
    total[r] = args->xq.sum + at;
    sum[r] = Zero();
  }
  TileDots dots[2];
  const auto multiply = [&](int64_t group) {
    const int8_t* weights = unpacked.q + group * kGroup * kPanelColumns;
    if (group % 2 == 0) {
      MultiplyGroup<0>(high + group * kGroup, low + group * kGroup, stride, weights, &dots[0]);
    } else {
      MultiplyGroup<1>(high + group * kGroup, low + group * kGroup, stride, weights, &dots[1]);
    }
  };
  multiply(0);
  for (int64_t group = 0; group < count; ++group) {
    if (group + 1 < count) multiply(group + 1);
    const TileDots& done = dots[group % 2];
    const float* factors = unpacked.factors + group * kFactors * kPanelColumns;
    const int64_t at = kGroup == 32 ? group : group / 2;  // of the activations
    const Vec weight_scale = Load(factors);
    for (int r = 0; r < kRows; ++r) {
      const __m512i whole = _mm512_add_epi32(_mm512_slli_epi32(_mm512_load_si512(done.high[r]), 8),
                                             _mm512_load_si512(done.low[r]));
      const Vec both = Mul(weight_scale, Set(scale[r][at]));
      sum[r] = Fma(_mm512_cvtepi32_ps(whole), both, sum[r]);
      if constexpr (HasMin(kWeights)) {
        sum[r] = Fma(Load(factors + kPanelColumns), Set(total[r][at]), sum[r]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    if (r >= first_stored && r < rows) {
      StoreOutput(args, row + r, panel * kPanelColumns, sum[r]);
    }
  }
}

template <IntWeights kWeights>
static void AmxMatmul(const MatmulArgs* args) {
  const PackedView& w = *args->weights;
  const int64_t height = args->rows < kTileHeight ? args->rows : kTileHeight;
  int8_t* bytes = reinterpret_cast<int8_t*>(args->scratch);
  const UnpackedPanel unpacked{
      bytes, reinterpret_cast<float*>(bytes + w.group_count * GroupOf(kWeights) * kPanelColumns)};
  ConfigureForProducts(height, GroupOf(kWeights));
  for (int64_t panel = args->panel_begin; panel < args->panel_end; ++panel) {
    UnpackPanel<kWeights>(w, panel, unpacked);
    __asm__ volatile("" ::: "memory");  // tile loads do not tell the compiler what they read
    if (height <= 4) {
      AmxTile<kWeights, 4>(args, 0, height, 0, panel, unpacked);
    } else if (height <= 8) {
      AmxTile<kWeights, 8>(args, 0, height, 0, panel, unpacked);
    } else if (height < kTileHeight) {
      AmxTile<kWeights, 16>(args, 0, height, 0, panel, unpacked);
    } else {
      for (int64_t row = 0; row < args->rows; row += kTileHeight) {
        const int64_t last = args->rows - kTileHeight;
        const int64_t first = row < last ? row : last;
        AmxTile<kWeights, 16>(args, first, kTileHeight, row - first, panel, unpacked);
      }
    }
  }
  _tile_release();
}

}  // namespace
}  // namespace tandem::ops
