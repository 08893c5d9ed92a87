#include "common/ops/pack_panels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace tandem::ops {
namespace {

// Elements of each row that are decoded before they are stored: one block of the K types, eight of
// the others. 16 rows of it fit in the first-level cache, also where rows lie 4096 bytes apart.
constexpr std::int64_t kStretch = 256;
constexpr std::int64_t kMaxGroups = kStretch / 16;

struct Stretch {
  std::int8_t q[kPanelColumns][kStretch];
  float scale[kPanelColumns][kMaxGroups];
  float min[kPanelColumns][kMaxGroups];
};

std::uint32_t Load32(const std::int8_t* p) {
  std::uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

void Store32(std::uint32_t value, std::byte* p) { std::memcpy(p, &value, sizeof value); }

using Bytes16 = std::uint8_t __attribute__((vector_size(16)));

// out[i][c] = in of column c, element i: four rounds of interleaving rows i and i + 8.
void TransposeBytes(const Stretch& stretch, std::int64_t first, std::byte* out) {
  Bytes16 a[16];
  Bytes16 b[16];
  for (int c = 0; c < 16; ++c) std::memcpy(&a[c], &stretch.q[c][first], 16);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = __builtin_shufflevector(a[i], a[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                                         6, 22, 7, 23);
      b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                             13, 29, 14, 30, 15, 31);
    }
    std::copy(b, b + 16, a);
  }
  std::memcpy(out, a, sizeof a);
}

// The stored byte of a type without min is unsigned, q + 128 or q + 8 in four bits; the kernels
// take that off again. With a min, q is not negative.
template <WeightLayout kLayout, bool kMin>
constexpr std::uint32_t kSignBits = kLayout == WeightLayout::kPanelInt8 || kMin ? 0
                                    : kLayout == WeightLayout::kPanelVnni4      ? 0x08080808u
                                                                                : 0x80808080u;

// Elements [first, first + 32) of columns 4 i .. 4 i + 3, a nibble each, low bits first.
void StoreTileNibbles(const Stretch& stretch, std::int64_t first, bool has_min, std::byte* out) {
  const std::uint16_t sign = has_min ? 0 : 0x8888;
  for (int quad = 0; quad < 4; ++quad) {
    std::array<std::uint16_t, 32> words;
    const std::int8_t* q[4];
    for (int c = 0; c < 4; ++c) q[c] = &stretch.q[quad * 4 + c][first];
    for (std::size_t i = 0; i < 32; ++i) {
      words[i] = static_cast<std::uint16_t>(
          ((q[0][i] & 15) | (q[1][i] & 15) << 4 | (q[2][i] & 15) << 8 | (q[3][i] & 15) << 12) ^
          sign);
    }
    std::memcpy(out + quad * 64, words.data(), sizeof words);
  }
}

// Exact for what was a half; all NaN are one.
std::uint16_t ToHalf(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7e00u;
  if (magnitude >= 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  const std::uint32_t normal = (magnitude >> 13) - (112u << 10);
  const auto small =
      static_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p24f);  // subnormal or zero
  return static_cast<std::uint16_t>(sign | (magnitude < 0x38800000u ? small : normal));
}

// One line of factors, a column each. Returns its end.
std::byte* StoreLine(const std::array<float, kPanelColumns>& line, bool half, std::byte* out) {
  if (half) {
    std::array<std::uint16_t, kPanelColumns> halves;
    std::transform(line.begin(), line.end(), halves.begin(), ToHalf);
    std::memcpy(out, halves.data(), sizeof halves);
    return out + sizeof halves;
  }
  std::memcpy(out, line.data(), sizeof line);
  return out + sizeof line;
}

// Elements [first, first + 32) of a stretch as one block of a tile layout. Returns its end.
std::byte* StoreTile(const Stretch& stretch, std::int64_t first, const PackedView& shape,
                     std::byte* out) {
  if (shape.layout == WeightLayout::kTileNibble) {
    StoreTileNibbles(stretch, first, shape.has_min != 0, out);
    out += kPanelColumns * 16;
  } else {
    for (int c = 0; c < kPanelColumns; ++c, out += 32) {
      for (int i = 0; i < 32; ++i) {
        out[i] = static_cast<std::byte>(stretch.q[c][first + i % 16 * 2 + i / 16]);
      }
    }
  }
  const bool half = shape.half_factors != 0;
  std::array<float, kPanelColumns> line;
  for (std::int64_t at = first; at < first + 32; at += shape.group) {
    for (int c = 0; c < kPanelColumns; ++c) line[c] = stretch.scale[c][at / shape.group];
    out = StoreLine(line, half, out);
  }
  if (shape.has_min != 0) {
    for (int c = 0; c < kPanelColumns; ++c) line[c] = stretch.min[c][first / shape.group];
    out = StoreLine(line, half, out);
  }
  return out;
}

// The elements [first, first + kGroup) of a stretch as one block's values. Returns their end.
template <WeightLayout kLayout, int kGroup, bool kMin>
std::byte* StoreValues(const Stretch& stretch, std::int64_t first, std::byte* out) {
  constexpr std::uint32_t kSign = kSignBits<kLayout, kMin>;
  if constexpr (kLayout == WeightLayout::kPanelInt8) {
    for (int i = 0; i < kGroup; i += 16)
      TransposeBytes(stretch, first + i, out + i * kPanelColumns);
    return out + kGroup * kPanelColumns;
  } else if constexpr (kLayout == WeightLayout::kPanelVnni) {
    for (int c = 0; c < kPanelColumns; ++c) {
      const std::int8_t* q = &stretch.q[c][first];
      for (int i = 0; i < kGroup; i += 4)
        Store32(Load32(q + i) ^ kSign, out + i * kPanelColumns + c * 4);
    }
    return out + kGroup * kPanelColumns;
  } else {  // kPanelVnni4: eight values of a column share four bytes, 0..3 in the low nibbles
    for (int c = 0; c < kPanelColumns; ++c) {
      const std::int8_t* q = &stretch.q[c][first];
      for (int i = 0; i < kGroup; i += 8) {
        const std::uint32_t low = (Load32(q + i) & 0x0f0f0f0fu) ^ kSign;
        const std::uint32_t high = (Load32(q + i + 4) & 0x0f0f0f0fu) ^ kSign;
        Store32(low | high << 4, out + i / 2 * kPanelColumns + c * 4);
      }
    }
    return out + kGroup * kPanelColumns / 2;
  }
}

// Group `index` of a stretch as one block: values, scales, mins if any. Returns its end.
template <WeightLayout kLayout, int kGroup, bool kMin>
std::byte* StoreGroup(const Stretch& stretch, std::int64_t index, std::byte* block) {
  std::byte* out = StoreValues<kLayout, kGroup, kMin>(stretch, index * kGroup, block);
  std::array<float, kPanelColumns> line;
  for (int c = 0; c < kPanelColumns; ++c) line[c] = stretch.scale[c][index];
  out = StoreLine(line, false, out);
  if constexpr (kMin) {
    for (int c = 0; c < kPanelColumns; ++c) line[c] = stretch.min[c][index];
    out = StoreLine(line, false, out);
  }
  return out;
}

// Decodes the panel's rows a stretch at a time: store(stretch, elements) takes each. Rows past n
// hold `blank`, without a scale.
template <typename Store>
void ForEachStretch(const WeightSource& source, std::int64_t panel, int blank, Store&& store) {
  const WeightTypeInfo& info = Info(source.type);
  const std::int64_t columns = std::min(kPanelColumns, source.n - panel * kPanelColumns);
  const std::byte* rows[kPanelColumns];
  for (std::int64_t c = 0; c < columns; ++c) rows[c] = source.row(panel * kPanelColumns + c);
  Stretch stretch;
  if (columns < kPanelColumns) {  // those past n hold what is stored as zero
    std::memset(&stretch, 0, sizeof stretch);
    std::memset(stretch.q, blank, sizeof stretch.q);
  }
  for (std::int64_t first = 0; first < source.k; first += kStretch) {
    const std::int64_t count = std::min(kStretch, source.k - first);
    for (std::int64_t c = 0; c < columns; ++c) {
      DecodeRow(source.type, rows[c], count, stretch.q[c], stretch.scale[c], stretch.min[c]);
      rows[c] += count / info.block_elems * info.block_bytes;
    }
    store(stretch, count);
  }
}

template <WeightLayout kLayout, int kGroup, bool kMin>
void PackQuantized(const WeightSource& source, std::int64_t panel, std::byte* out) {
  ForEachStretch(source, panel, kSignBits<kLayout, kMin> & 0xff,
                 [&](const Stretch& stretch, std::int64_t count) {
                   for (std::int64_t i = 0; i < count / kGroup; ++i) {
                     out = StoreGroup<kLayout, kGroup, kMin>(stretch, i, out);
                   }
                 });
}

void PackTiles(const WeightSource& source, const PackedView& shape, std::int64_t panel,
               std::byte* out) {
  const bool offset = shape.layout == WeightLayout::kTileNibble && shape.has_min == 0;
  ForEachStretch(source, panel, offset ? -8 : 0, [&](const Stretch& stretch, std::int64_t count) {
    for (std::int64_t first = 0; first < count; first += 32) {
      out = StoreTile(stretch, first, shape, out);
    }
  });
}

// Blocks of 32 elements of each row, as the file has them.
void PackBf16Tiles(const WeightSource& source, std::int64_t panel, std::byte* out) {
  const std::int64_t columns = std::min(kPanelColumns, source.n - panel * kPanelColumns);
  for (std::int64_t first = 0; first < source.k; first += 32) {
    const std::int64_t bytes = std::min<std::int64_t>(32, source.k - first) * 2;
    for (std::int64_t c = 0; c < kPanelColumns; ++c, out += 64) {
      std::memset(out, 0, 64);
      if (c >= columns) continue;
      std::memcpy(out, source.row(panel * kPanelColumns + c) + first * 2,
                  static_cast<std::size_t>(bytes));
    }
  }
}

template <WeightLayout kLayout>
void PackQuantized(const WeightSource& source, std::int64_t panel, std::byte* out) {
  const WeightTypeInfo& info = Info(source.type);
  if (info.group == 16) return PackQuantized<kLayout, 16, false>(source, panel, out);
  if (info.has_min) return PackQuantized<kLayout, 32, true>(source, panel, out);
  return PackQuantized<kLayout, 32, false>(source, panel, out);
}

// out[i][c] = row c's element i, of T's width. A cache line of a row at a time: sixteen rows that
// lie 4096 bytes apart would push one another out.
template <typename T>
void PackFloats(const WeightSource& source, std::int64_t panel, std::byte* out) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  const std::int64_t columns = std::min(kPanelColumns, source.n - panel * kPanelColumns);
  const std::byte* rows[kPanelColumns];
  for (std::int64_t c = 0; c < columns; ++c) rows[c] = source.row(panel * kPanelColumns + c);
  if (columns < kPanelColumns)
    std::memset(out, 0, static_cast<std::size_t>(source.k) * kPanelColumns * sizeof(T));
  for (std::int64_t first = 0; first < source.k; first += kLine) {
    const std::int64_t count = std::min(kLine, source.k - first);
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(out + ((first + i) * kPanelColumns + c) * static_cast<std::int64_t>(sizeof(T)),
                    rows[c] + (first + i) * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
      }
    }
  }
}

void PackRows(const WeightSource& source, std::int64_t panel, std::byte* out) {
  const std::int64_t row_bytes = source.k * static_cast<std::int64_t>(sizeof(float));
  for (std::int64_t c = 0; c < kPanelColumns; ++c, out += row_bytes) {
    const std::int64_t row = panel * kPanelColumns + c;
    if (row < source.n) {
      DequantizeRow(source.type, source.row(row), source.k, reinterpret_cast<float*>(out));
    } else {
      std::memset(out, 0, static_cast<std::size_t>(row_bytes));
    }
  }
}

}  // namespace

void PackPanels(const WeightSource& source, const PackedView& shape, Range panels, std::byte* out) {
  for (std::int64_t panel = panels.begin; panel < panels.end; ++panel, out += shape.panel_bytes) {
    switch (shape.layout) {
      case WeightLayout::kRowsF32:
        PackRows(source, panel, out);
        break;
      case WeightLayout::kPanelF32:
        PackFloats<std::uint32_t>(source, panel, out);
        break;
      case WeightLayout::kPanelF16:
      case WeightLayout::kPanelBf16:
        PackFloats<std::uint16_t>(source, panel, out);
        break;
      case WeightLayout::kPanelInt8:
        PackQuantized<WeightLayout::kPanelInt8>(source, panel, out);
        break;
      case WeightLayout::kPanelVnni:
        PackQuantized<WeightLayout::kPanelVnni>(source, panel, out);
        break;
      case WeightLayout::kPanelVnni4:
        PackQuantized<WeightLayout::kPanelVnni4>(source, panel, out);
        break;
      case WeightLayout::kTileNibble:
      case WeightLayout::kTileByte:
        PackTiles(source, shape, panel, out);
        break;
      case WeightLayout::kTileBf16:
        PackBf16Tiles(source, panel, out);
        break;
    }
  }
}

}  // namespace tandem::ops
