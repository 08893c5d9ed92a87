// Matrix product of quantised weights with 12-bit activations in AMX tiles: the bytes of
// simd_int_matmul.h's, many rows at a time. Included after it and amx_tiles.h, by sources built for
// AMX; internal linkage.
//
// Some panels are unpacked to signed bytes in scratch; then 16 rows at a time, which stay in the
// nearest cache, meet one panel after another, group by group: tile products, stored, and added up
// by vectors while the next group's run.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

static_assert(kTileSide == kActivationRows && kTileSide == kPanelColumns);

// Panels unpacked at a time. One stays in the nearest cache, which is what counts when few rows
// share the unpacking; with many, it is to fetch the rows less often.
constexpr int64_t kUnpackedPanels = 8;
constexpr int64_t kManyRows = 64;

// Calls fn.operator()<0>() … fn.operator()<kCount - 1>(): indices that the compiler sees as such
// keep arrays of vectors in registers.
template <int kCount, typename Fn>
[[gnu::always_inline]] static inline void Unrolled(Fn&& fn) {
  if constexpr (kCount > 0) {
    Unrolled<kCount - 1>(fn);
    fn.template operator()<kCount - 1>();
  }
}

// How a kind of weights is multiplied. 4-bit ones lie in a tile twice, times 16 and as they are,
// and meet rows of high and low activations in one product; others take a product for each plane.
template <IntWeights kWeights>
struct TilePlan {
  static constexpr int kGroup = GroupOf(kWeights);
  static constexpr bool kJoined = IsNibble(kWeights);
  static constexpr int kActivationBytes = kJoined ? 64 : kGroup;  // of a row
  static constexpr int kWeightRows = kActivationBytes / 4;
};

// Tiles 0..3: dot products [rows, 16] int32, by group and plane in turn. 4, 5: activations [rows,
// bytes] int8. 6, 7: weights [bytes / 4, 16, 4] int8.
template <IntWeights kWeights>
static void ConfigureForProducts(int rows) {
  using Plan = TilePlan<kWeights>;
  TileShapes shapes;
  for (int tile = 0; tile < 4; ++tile) shapes.SetTile(tile, rows);
  for (int tile = 4; tile < 6; ++tile) shapes.SetTile(tile, rows, Plan::kActivationBytes);
  for (int tile = 6; tile < 8; ++tile) shapes.SetTile(tile, Plan::kWeightRows);
  ConfigureTiles(shapes);
}

// One group of one panel in scratch.
template <IntWeights kWeights>
struct alignas(64) UnpackedGroup {
  int8_t q[TilePlan<kWeights>::kWeightRows][kPanelColumns * 4];
  float scale[kPanelColumns];
  float min[HasMin(kWeights) ? kPanelColumns : 0];
};

template <IntWeights kWeights>
static void UnpackPanel(const PackedView& w, int64_t panel, UnpackedGroup<kWeights>* out) {
  constexpr int kSteps = GroupOf(kWeights) / 4;
  const __m512i top = _mm512_set1_epi8(-128);
  const uint8_t* block = w.data + panel * w.panel_bytes;
  for (int64_t group = 0; group < w.group_count; ++group, ++out, block += BlockBytes(kWeights)) {
    for (int step = 0; step < kSteps; ++step) {
      __m512i quads = LoadQuads<kWeights>(block, step);
      if constexpr (IsNibble(kWeights)) {
        const __m512i shifted = _mm512_xor_si512(_mm512_slli_epi16(quads, 4), top);
        _mm512_store_si512(out->q[step], shifted);
        quads = _mm512_sub_epi8(quads, _mm512_set1_epi8(8));
        _mm512_store_si512(out->q[kSteps + step], quads);
      } else {
        if constexpr (!HasMin(kWeights)) quads = _mm512_xor_si512(quads, top);
        _mm512_store_si512(out->q[step], quads);
      }
    }
    const float* factors = reinterpret_cast<const float*>(block + ValueBytes(kWeights));
    const Vec scale = Load(factors);
    Store(out->scale, scale);
    if constexpr (HasMin(kWeights)) Store(out->min, MinOf<kWeights, 2>(factors, scale));
  }
}

struct alignas(64) TileDots {
  int32_t plane[2][kActivationRows][kPanelColumns];
};

// One group. kParity: whether its number is odd; neighbours use other tiles, so that they overlap.
template <IntWeights kWeights, int kParity>
static inline void MultiplyGroup(const ActivationBlock<2>& x, const int8_t* weights,
                                 TileDots* dots) {
  using Plan = TilePlan<kWeights>;
  constexpr int kHalf = Plan::kGroup == 32 ? 0 : kParity * 16;
  constexpr int kStride = 2 * kActivationGroup;
  constexpr int kDots = kParity * 2, kHigh = 4 + kParity, kLow = 5 - kParity, kWeight = 6 + kParity;
  LoadTile<kHigh>(x.q[0][0] + kHalf, kStride);
  LoadTile<kWeight>(weights, 64);
  ZeroTile<kDots>();
  AddProductInt8<kDots, kHigh, kWeight>();
  StoreTile<kDots>(dots->plane[0], 64);
  if constexpr (!Plan::kJoined) {
    LoadTile<kLow>(x.q[0][1] + kHalf, kStride);
    ZeroTile<kDots + 1>();
    AddProductInt8<kDots + 1, kLow, kWeight>();
    StoreTile<kDots + 1>(dots->plane[1], 64);
  }
}

// The rows of one row block with one panel. kRows: those of the tiles, rounded up; what the tiles
// do not hold is added up and not stored. kFetch: fetches the panel after this one meanwhile.
template <IntWeights kWeights, int kRows, bool kFetch>
static void AmxTile(const MatmulArgs* args, int64_t row, int64_t rows, int64_t panel,
                    const UnpackedGroup<kWeights>* weights) {
  constexpr int kGroup = GroupOf(kWeights);
  const auto* x =
      static_cast<const ActivationBlock<2>*>(args->xq) + row / kActivationRows * args->xq_groups;
  const int64_t count = args->weights->group_count;
  TileDots dots[2];
  Vec sum[kRows];
  Unrolled<kRows>([&]<int r>() __attribute__((always_inline)) { sum[r] = Zero(); });
  const auto block = [&](int64_t group) -> const ActivationBlock<2>& {
    return x[kGroup == 32 ? group : group / 2];
  };
  const auto multiply = [&](int64_t group) {
    if (group % 2 == 0) {
      MultiplyGroup<kWeights, 0>(block(group), weights[group].q[0], &dots[0]);
    } else {
      MultiplyGroup<kWeights, 1>(block(group), weights[group].q[0], &dots[1]);
    }
  };
  const uint8_t* next = args->weights->data + (panel + 1) * args->weights->panel_bytes;
  multiply(0);
  for (int64_t group = 0; group < count; ++group) {
    if (group + 1 < count) multiply(group + 1);
    if constexpr (kFetch) {
      Fetch<BlockBytes(kWeights)>(next);
      next += BlockBytes(kWeights);
    }
    const ActivationBlock<2>& factors = block(group);
    const TileDots& done = dots[group % 2];
    const Vec weight_scale = Load(weights[group].scale);
    Vec weight_min = Zero();
    if constexpr (HasMin(kWeights)) weight_min = Load(weights[group].min);
    Unrolled<kRows>([&]<int r>() __attribute__((always_inline)) {
      __m512i whole = _mm512_load_si512(done.plane[0][r]);
      if constexpr (!TilePlan<kWeights>::kJoined) {
        whole = _mm512_add_epi32(_mm512_slli_epi32(whole, 4), _mm512_load_si512(done.plane[1][r]));
      }
      const Vec both = Mul(weight_scale, Set(factors.scale[r]));
      sum[r] = Fma(_mm512_cvtepi32_ps(whole), both, sum[r]);
      if constexpr (HasMin(kWeights)) sum[r] = Fma(weight_min, Set(factors.sum[r]), sum[r]);
    });
  }
  Unrolled<kRows>([&]<int r>() __attribute__((always_inline)) {
    if (r < rows) StoreOutput(args, row + r, panel * kPanelColumns, sum[r]);
  });
}

template <IntWeights kWeights, int kRows>
static void AmxPanels(const MatmulArgs* args) {
  const PackedView& w = *args->weights;
  auto* unpacked = reinterpret_cast<UnpackedGroup<kWeights>*>(args->scratch);
  const int64_t at_once = args->rows > kManyRows ? kUnpackedPanels : 1;
  for (int64_t first = args->panel_begin; first < args->panel_end; first += at_once) {
    const int64_t left = args->panel_end - first;
    const int64_t panels = left < at_once ? left : at_once;
    for (int64_t p = 0; p < panels; ++p) {
      UnpackPanel<kWeights>(w, first + p, unpacked + p * w.group_count);
    }
    for (int64_t row = 0; row < args->rows; row += kActivationRows) {
      const int64_t rows = args->rows - row < kActivationRows ? args->rows - row : kActivationRows;
      for (int64_t p = 0; p < panels; ++p) {
        const UnpackedGroup<kWeights>* weights = unpacked + p * w.group_count;
        if (at_once == 1 && row == 0) {
          AmxTile<kWeights, kRows, true>(args, row, rows, first + p, weights);
        } else {
          AmxTile<kWeights, kRows, false>(args, row, rows, first + p, weights);
        }
      }
    }
  }
}

template <IntWeights kWeights>
static void AmxMatmul(const MatmulArgs* args) {
  const int height = static_cast<int>(args->rows < kTileSide ? args->rows : kTileSide);
  ConfigureForProducts<kWeights>(height);
  if (height <= 4) {
    AmxPanels<kWeights, 4>(args);
  } else if (height <= 8) {
    AmxPanels<kWeights, 8>(args);
  } else {
    AmxPanels<kWeights, 16>(args);
  }
  ReleaseTiles();
}

}  // namespace
}  // namespace tandem::ops
