#include "common/ops/pack_quantized.h"

#include <algorithm>
#include <cstring>

#include "common/ops/byte_vectors.h"

namespace tandem::ops {
namespace {

// Elements of each row that are decoded before they are stored: one block of the K types, eight of
// the others. 16 rows of it fit in the first-level cache, also where rows lie 4096 bytes apart.
constexpr std::int64_t kStretch = 256;
constexpr std::int64_t kMaxGroups = kStretch / 16;

struct alignas(64) Stretch {
  std::int8_t q[kPanelColumns][kStretch];
  // A line of columns for each group, of halves where the file and the layout have those.
  float scale[kMaxGroups][kPanelColumns];
  float min[kMaxGroups][kPanelColumns];
  std::uint16_t half_scale[kMaxGroups][kPanelColumns];
  std::uint16_t half_min[kMaxGroups][kPanelColumns];
};

// What a byte that is stored has flipped of the decoded one. The stored byte of a type without min
// is unsigned in most layouts, q + 128 or q + 8 in four bits; the kernels take that off again. With
// a min, q is not negative.
template <WeightLayout kLayout, bool kMin>
constexpr std::uint8_t kFlip =
    kMin || kLayout == WeightLayout::kPanelInt8 || kLayout == WeightLayout::kTileByte ? 0
    : kLayout == WeightLayout::kPanelVnni                                             ? 0x80
                                                                                      : 0x08;

// Four columns' words of one line each become one line's words of four columns.
void StoreColumns(U32x4 (&words)[4], std::byte* out) {
  Transpose(words);
  for (int i = 0; i < 4; ++i) StoreVector(words[i], out + i * kPanelColumns * 4);
}

// [group, 16] bytes: 16 elements of 16 columns at a time.
void StoreInt8(const Stretch& stretch, std::int64_t first, int group, std::byte* out) {
  for (int i = 0; i < group; i += 16, out += 16 * kPanelColumns) {
    U8x16 a[16];
    for (int c = 0; c < 16; ++c) a[c] = LoadVector<U8x16>(&stretch.q[c][first + i]);
    Transpose(a);
    std::memcpy(out, a, sizeof a);
  }
}

// [group / 4, 16, 4] bytes.
template <std::uint8_t kFlipped>
void StoreVnni(const Stretch& stretch, std::int64_t first, int group, std::byte* out) {
  for (int c = 0; c < kPanelColumns; c += 4) {
    for (int i = 0; i < group; i += 16) {
      U32x4 words[4];
      for (int j = 0; j < 4; ++j) {
        words[j] = LoadVector<U32x4>(&stretch.q[c + j][first + i]) ^ 0x01010101u * kFlipped;
      }
      StoreColumns(words, out + i * kPanelColumns + c * 4);
    }
  }
}

// [group / 8, 16, 4] bytes: eight values of a column share four, 0..3 in the low nibbles.
template <std::uint8_t kFlipped>
void StoreVnni4(const Stretch& stretch, std::int64_t first, std::byte* out) {
  for (int c = 0; c < kPanelColumns; c += 4) {
    U32x4 words[4];
    for (int j = 0; j < 4; ++j) {
      const auto a = LoadVector<U32x4>(&stretch.q[c + j][first]);
      const auto b = LoadVector<U32x4>(&stretch.q[c + j][first + 16]);
      const U32x4 low = __builtin_shufflevector(a, b, 0, 2, 4, 6) & 0x0f0f0f0fu;
      const U32x4 high = __builtin_shufflevector(a, b, 1, 3, 5, 7) & 0x0f0f0f0fu;
      words[j] = (low | high << 4) ^ 0x11111111u * kFlipped;
    }
    StoreColumns(words, out + c * 4);
  }
}

// [4, 32] words of 4 columns' nibbles.
template <std::uint8_t kFlipped>
void StoreTileNibbles(const Stretch& stretch, std::int64_t first, std::byte* out) {
  constexpr std::uint8_t kBoth = 0x11 * kFlipped;
  for (int c = 0; c < kPanelColumns; c += 4) {
    for (int i = 0; i < 32; i += 16, out += 32) {
      U8x16 q[4];
      for (int j = 0; j < 4; ++j) q[j] = LoadVector<U8x16>(&stretch.q[c + j][first + i]);
      const U8x16 low = ((q[0] & 15) | q[1] << 4) ^ kBoth;
      const U8x16 high = ((q[2] & 15) | q[3] << 4) ^ kBoth;
      StoreVector(ZipLow(low, high), out);
      StoreVector(ZipHigh(low, high), out + 16);
    }
  }
}

// [8, 16] pairs of bytes of two columns in turn.
void StoreTileBytes(const Stretch& stretch, std::int64_t first, std::byte* out) {
  for (int c = 0; c < kPanelColumns; c += 2) {
    for (int i = 0; i < 32; i += 16, out += 32) {
      const auto a = LoadVector<U16x8>(&stretch.q[c][first + i]);
      const auto b = LoadVector<U16x8>(&stretch.q[c + 1][first + i]);
      StoreVector(ZipLow(a, b), out);
      StoreVector(ZipHigh(a, b), out + 16);
    }
  }
}

// The elements of a stretch from `first` on as one block's values. Returns their end.
template <WeightLayout kLayout, int kGroup, bool kMin>
std::byte* StoreValues(const Stretch& stretch, std::int64_t first, std::byte* out) {
  constexpr std::uint8_t kFlipped = kFlip<kLayout, kMin>;
  if constexpr (kLayout == WeightLayout::kPanelInt8) {
    StoreInt8(stretch, first, kGroup, out);
    return out + kGroup * kPanelColumns;
  } else if constexpr (kLayout == WeightLayout::kPanelVnni) {
    StoreVnni<kFlipped>(stretch, first, kGroup, out);
    return out + kGroup * kPanelColumns;
  } else if constexpr (kLayout == WeightLayout::kPanelVnni4) {
    StoreVnni4<kFlipped>(stretch, first, out);
    return out + kGroup * kPanelColumns / 2;
  } else if constexpr (kLayout == WeightLayout::kTileNibble) {
    StoreTileNibbles<kFlipped>(stretch, first, out);
    return out + 16 * kPanelColumns;
  } else {
    StoreTileBytes(stretch, first, out);
    return out + 32 * kPanelColumns;
  }
}

template <typename T>
std::byte* StoreLine(const T (&line)[kPanelColumns], std::byte* out) {
  std::memcpy(out, line, sizeof line);
  return out + sizeof line;
}

// The factors of `groups` groups: scales, then the mins if any. Returns their end.
template <bool kMin>
std::byte* StoreFactors(const Stretch& stretch, std::int64_t group, int groups, bool halves,
                        std::byte* out) {
  for (int i = 0; i < groups; ++i) {
    out = halves ? StoreLine(stretch.half_scale[group + i], out)
                 : StoreLine(stretch.scale[group + i], out);
  }
  if constexpr (kMin) {
    out = halves ? StoreLine(stretch.half_min[group], out) : StoreLine(stretch.min[group], out);
  }
  return out;
}

// Both lines as f32, as HalfToFloat has them.
void ToFloats(const std::uint16_t (&halves)[kPanelColumns], float (&floats)[kPanelColumns]) {
  using I32x4 = std::int32_t __attribute__((vector_size(16)));
  using F32x4 = float __attribute__((vector_size(16)));
  for (int i = 0; i < kPanelColumns; i += 4) {
    const I32x4 half = {halves[i], halves[i + 1], halves[i + 2], halves[i + 3]};
    const I32x4 magnitude = half & 0x7fff;
    const auto small = (I32x4)(__builtin_convertvector(magnitude, F32x4) * 0x1p-24f);
    const I32x4 normal = (magnitude << 13) + (112 << 23);
    const I32x4 special = magnitude << 13 | 0x7f800000;
    const I32x4 bits = magnitude < 0x0400 ? small : magnitude < 0x7c00 ? normal : special;
    StoreVector(bits | (half & 0x8000) << 16, floats + i);
  }
}

// All NaN are one.
void Unify(std::uint16_t (&halves)[kPanelColumns]) {
  for (std::uint16_t& half : halves) half = (half & 0x7fff) > 0x7c00 ? 0x7e00 : half;
}

// A panel's rows, as far as they were read.
struct Rows {
  const WeightTypeInfo& info;
  WeightType type;
  std::int64_t columns;  // that are not past n
  const std::byte* at[kPanelColumns];
};

// Types of blocks of 32 with a half as scale, and maybe one as min.
void DecodeHalfFactors(const Rows& rows, std::int64_t count, bool halves, Stretch& stretch) {
  for (std::int64_t group = 0; group < count / 32; ++group) {
    for (std::int64_t c = 0; c < rows.columns; ++c) {
      const std::byte* block = rows.at[c] + group * rows.info.block_bytes;
      std::memcpy(&stretch.half_scale[group][c], block, 2);
      if (rows.info.has_min) std::memcpy(&stretch.half_min[group][c], block + 2, 2);
    }
    if (halves) {
      Unify(stretch.half_scale[group]);
      if (rows.info.has_min) Unify(stretch.half_min[group]);
    } else {
      ToFloats(stretch.half_scale[group], stretch.scale[group]);
      if (rows.info.has_min) ToFloats(stretch.half_min[group], stretch.min[group]);
    }
  }
}

// The next `count` elements of each row.
void Decode(Rows& rows, std::int64_t count, bool halves, Stretch& stretch) {
  if (rows.info.half_factors) DecodeHalfFactors(rows, count, halves, stretch);
  for (std::int64_t c = 0; c < rows.columns; ++c) {
    if (rows.info.half_factors) {
      DecodeIntegers(rows.type, rows.at[c], count, stretch.q[c]);
    } else {
      float scale[kMaxGroups];
      float min[kMaxGroups];
      DecodeRow(rows.type, rows.at[c], count, stretch.q[c], scale, min);
      for (std::int64_t group = 0; group < count / rows.info.group; ++group) {
        stretch.scale[group][c] = scale[group];
        stretch.min[group][c] = min[group];
      }
    }
    rows.at[c] += count / rows.info.block_elems * rows.info.block_bytes;
  }
}

// kGroup: elements of a block of the layout that share a scale.
template <WeightLayout kLayout, int kGroup, bool kMin>
void Pack(const WeightSource& source, const PackedView& shape, std::int64_t panel, std::byte* out) {
  constexpr bool kTile = kLayout == WeightLayout::kTileNibble || kLayout == WeightLayout::kTileByte;
  constexpr int kBlock = kTile ? 32 : kGroup;
  Rows rows{.info = Info(source.type), .type = source.type, .columns = 0, .at = {}};
  rows.columns = std::min(kPanelColumns, source.n - panel * kPanelColumns);
  for (std::int64_t c = 0; c < rows.columns; ++c) rows.at[c] = source.row(panel * 16 + c);
  const bool halves = shape.half_factors != 0;
  Stretch stretch;
  if (rows.columns < kPanelColumns) {  // those past n hold what is stored as zero, without a scale
    std::memset(&stretch, 0, sizeof stretch);
    std::memset(stretch.q, kFlip<kLayout, kMin>, sizeof stretch.q);
  }
  for (std::int64_t first = 0; first < source.k; first += kStretch) {
    const std::int64_t count = std::min(kStretch, source.k - first);
    Decode(rows, count, halves, stretch);
    for (std::int64_t i = 0; i < count; i += kBlock) {
      out = StoreValues<kLayout, kGroup, kMin>(stretch, i, out);
      out = StoreFactors<kMin>(stretch, i / kGroup, kBlock / kGroup, halves, out);
    }
  }
}

template <WeightLayout kLayout>
void PackLayout(const WeightSource& source, const PackedView& shape, std::int64_t panel,
                std::byte* out) {
  if (shape.has_min != 0) return Pack<kLayout, 32, true>(source, shape, panel, out);
  if constexpr (kLayout == WeightLayout::kTileByte || kLayout == WeightLayout::kPanelInt8 ||
                kLayout == WeightLayout::kPanelVnni) {
    if (shape.group == 16) return Pack<kLayout, 16, false>(source, shape, panel, out);
  }
  Pack<kLayout, 32, false>(source, shape, panel, out);
}

}  // namespace

void PackQuantizedPanel(const WeightSource& source, const PackedView& shape, std::int64_t panel,
                        std::byte* out) {
  switch (shape.layout) {
    case WeightLayout::kPanelInt8:
      return PackLayout<WeightLayout::kPanelInt8>(source, shape, panel, out);
    case WeightLayout::kPanelVnni:
      return PackLayout<WeightLayout::kPanelVnni>(source, shape, panel, out);
    case WeightLayout::kPanelVnni4:
      return PackLayout<WeightLayout::kPanelVnni4>(source, shape, panel, out);
    case WeightLayout::kTileNibble:
      return PackLayout<WeightLayout::kTileNibble>(source, shape, panel, out);
    default:
      return PackLayout<WeightLayout::kTileByte>(source, shape, panel, out);
  }
}

}  // namespace tandem::ops
