#include "common/ops/pack_panels.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/ops/byte_vectors.h"
#include "common/ops/pack_quantized.h"

namespace tandem::ops {
namespace {

// [16, 32] words of each 32 elements, as the file has them.
void PackBf16Tiles(const WeightSource& source, std::int64_t panel, std::byte* out) {
  const std::int64_t columns = std::min(kPanelColumns, source.n - panel * kPanelColumns);
  const std::byte* rows[kPanelColumns];
  for (std::int64_t c = 0; c < columns; ++c) rows[c] = source.row(panel * kPanelColumns + c);
  for (std::int64_t first = 0; first < source.k; first += 32) {
    const std::int64_t count = std::min<std::int64_t>(32, source.k - first);
    for (std::int64_t c = 0; c < kPanelColumns; ++c, out += 64) {
      if (c < columns && count == 32) {
        std::memcpy(out, rows[c] + first * 2, 64);
        continue;
      }
      std::memset(out, 0, 64);
      if (c < columns) std::memcpy(out, rows[c] + first * 2, static_cast<std::size_t>(count) * 2);
    }
  }
}

// Elements [first, first + count) of rows, as PackFloats has them.
template <typename T>
void PackElements(const std::byte* const* rows, std::int64_t columns, std::int64_t first,
                  std::int64_t count, std::byte* out) {
  constexpr auto kWidth = static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = first; i < first + count; ++i) {
    for (std::int64_t c = 0; c < columns; ++c) {
      std::memcpy(out + (i * kPanelColumns + c) * kWidth, rows[c] + i * kWidth, sizeof(T));
    }
  }
}

// out[i][c] = row c's element i, of the width of Vector's: squares of 16 bytes a row. A cache line
// of a row at a time: sixteen rows that lie 4096 bytes apart would push one another out.
template <typename Vector>
void PackFloats(const WeightSource& source, std::int64_t panel, std::byte* out) {
  using T = std::remove_cvref_t<decltype(Vector{}[0])>;
  constexpr auto kWidth = static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t kSide = 16 / kWidth;
  constexpr std::int64_t kLine = 64 / kWidth;
  const std::int64_t columns = std::min(kPanelColumns, source.n - panel * kPanelColumns);
  const std::byte* rows[kPanelColumns];
  for (std::int64_t c = 0; c < columns; ++c) rows[c] = source.row(panel * kPanelColumns + c);
  if (columns < kPanelColumns) {
    std::memset(out, 0, static_cast<std::size_t>(source.k * kPanelColumns * kWidth));
    return PackElements<T>(rows, columns, 0, source.k, out);
  }
  const std::int64_t whole = source.k / kLine * kLine;
  for (std::int64_t first = 0; first < whole; first += kLine) {
    for (std::int64_t c = 0; c < kPanelColumns; c += kSide) {
      for (std::int64_t i = first; i < first + kLine; i += kSide) {
        Vector square[kSide];
        for (std::int64_t j = 0; j < kSide; ++j) {
          square[j] = LoadVector<Vector>(rows[c + j] + i * kWidth);
        }
        Transpose(square);
        for (std::int64_t j = 0; j < kSide; ++j) {
          StoreVector(square[j], out + ((i + j) * kPanelColumns + c) * kWidth);
        }
      }
    }
  }
  PackElements<T>(rows, columns, whole, source.k - whole, out);
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
        PackFloats<U32x4>(source, panel, out);
        break;
      case WeightLayout::kPanelF16:
      case WeightLayout::kPanelBf16:
        PackFloats<U16x8>(source, panel, out);
        break;
      case WeightLayout::kPanelInt8:
      case WeightLayout::kPanelVnni:
      case WeightLayout::kPanelVnni4:
      case WeightLayout::kTileNibble:
      case WeightLayout::kTileByte:
        PackQuantizedPanel(source, shape, panel, out);
        break;
      case WeightLayout::kTileBf16:
        PackBf16Tiles(source, panel, out);
        break;
    }
  }
}

}  // namespace tandem::ops
