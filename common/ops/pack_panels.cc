#include "common/ops/pack_panels.h"

#include <algorithm>
#include <array>
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
  std::memcpy(out, line.data(), sizeof line);
  out += sizeof line;
  if constexpr (kMin) {
    for (int c = 0; c < kPanelColumns; ++c) line[c] = stretch.min[c][index];
    std::memcpy(out, line.data(), sizeof line);
    out += sizeof line;
  }
  return out;
}

template <WeightLayout kLayout, int kGroup, bool kMin>
void PackQuantized(const WeightSource& source, std::int64_t panel, std::byte* out) {
  const WeightTypeInfo& info = Info(source.type);
  const std::int64_t columns = std::min(kPanelColumns, source.n - panel * kPanelColumns);
  const std::byte* rows[kPanelColumns];
  for (std::int64_t c = 0; c < columns; ++c) rows[c] = source.row(panel * kPanelColumns + c);
  Stretch stretch;
  if (columns < kPanelColumns) {  // those past n hold what is stored as zero
    std::memset(&stretch, 0, sizeof stretch);
    std::memset(stretch.q, kSignBits<kLayout, kMin> & 0xff, sizeof stretch.q);
  }
  for (std::int64_t first = 0; first < source.k; first += kStretch) {
    const std::int64_t count = std::min(kStretch, source.k - first);
    for (std::int64_t c = 0; c < columns; ++c) {
      DecodeRow(source.type, rows[c], count, stretch.q[c], stretch.scale[c], stretch.min[c]);
      rows[c] += count / info.block_elems * info.block_bytes;
    }
    for (std::int64_t i = 0; i < count / kGroup; ++i) {
      out = StoreGroup<kLayout, kGroup, kMin>(stretch, i, out);
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
    }
  }
}

}  // namespace tandem::ops
