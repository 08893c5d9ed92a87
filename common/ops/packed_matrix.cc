#include "common/ops/packed_matrix.h"

#include <cstring>
#include <vector>

namespace tandem::ops {
namespace {

WeightLayout LayoutFor(WeightType type, NumericsClass numerics) {
  if (numerics == NumericsClass::kScalarF32) return WeightLayout::kRowsF32;
  switch (type) {
    case WeightType::kF32:
      return WeightLayout::kPanelF32;
    case WeightType::kF16:
      return WeightLayout::kPanelF16;
    case WeightType::kBF16:
      return WeightLayout::kPanelBf16;
    default:
      break;
  }
  if (ActivationPlanes(numerics) == 0) return WeightLayout::kPanelInt8;
  return Info(type).nibble ? WeightLayout::kPanelVnni4 : WeightLayout::kPanelVnni;
}

PackedView ShapeOf(const WeightSource& source, NumericsClass numerics) {
  PackedView view{};
  view.layout = LayoutFor(source.type, numerics);
  view.n = source.n;
  view.k = source.k;
  switch (view.layout) {
    case WeightLayout::kRowsF32:
      view.panel_bytes = kPanelColumns * source.k * 4;
      return view;
    case WeightLayout::kPanelF32:
      view.panel_bytes = kPanelColumns * source.k * 4;
      return view;
    case WeightLayout::kPanelF16:
    case WeightLayout::kPanelBf16:
      view.panel_bytes = kPanelColumns * source.k * 2;
      return view;
    default:
      break;
  }
  const WeightTypeInfo& info = Info(source.type);
  view.group = info.group;
  view.has_min = info.has_min ? 1 : 0;
  view.group_count = RoundUp(source.k, 32) / info.group;
  const std::int64_t values = kPanelColumns * info.group;
  view.block_bytes = (view.layout == WeightLayout::kPanelVnni4 ? values / 2 : values) +
                     kPanelColumns * 4 * (info.has_min ? 2 : 1);
  view.panel_bytes = view.group_count * view.block_bytes;
  return view;
}

// Copies one file row of floats into its column of a panel.
void PackFloatRow(const std::byte* row, std::int64_t k, std::int64_t width, std::byte* column) {
  for (std::int64_t i = 0; i < k; ++i) {
    std::memcpy(column + i * kPanelColumns * width, row + i * width,
                static_cast<std::size_t>(width));
  }
}

struct DecodedRow {
  std::vector<std::int8_t> q;
  std::vector<float> scale;
  std::vector<float> min;
};

// Where element `i` of a group lies in its block, for column `column`.
std::int64_t ByteOf(WeightLayout layout, std::int64_t i, std::int64_t column) {
  if (layout == WeightLayout::kPanelInt8) return i * kPanelColumns + column;
  return i / 4 * kPanelColumns * 4 + column * 4 + i % 4;
}

void PackQuantizedRow(const PackedView& view, const DecodedRow& row, std::int64_t column,
                      std::byte* panel) {
  const bool nibble = view.layout == WeightLayout::kPanelVnni4;
  const std::int64_t value_bytes = kPanelColumns * view.group / (nibble ? 2 : 1);
  // What makes the stored byte of a type without min unsigned; the kernels take it off again.
  const int offset = view.layout == WeightLayout::kPanelInt8 || view.has_min != 0 ? 0
                     : nibble                                                     ? 8
                                                                                  : 128;
  for (std::int64_t group = 0; group < view.group_count; ++group) {
    std::byte* block = panel + group * view.block_bytes;
    const std::int64_t first = group * view.group;
    if (first >= view.k) return;
    for (std::int64_t i = 0; i < view.group; ++i) {
      const int value = row.q[first + i] + offset;
      // Eight values of a column share four bytes: 0..3 in the low nibbles, 4..7 in the high.
      const std::int64_t at =
          nibble ? ByteOf(view.layout, i / 8 * 4 + i % 4, column) : ByteOf(view.layout, i, column);
      block[at] |= static_cast<std::byte>(nibble && i % 8 >= 4 ? value << 4 : value);
    }
    std::byte* factors = block + value_bytes + column * 4;
    std::memcpy(factors, &row.scale[group], 4);
    if (view.has_min != 0) std::memcpy(factors + kPanelColumns * 4, &row.min[group], 4);
  }
}

}  // namespace

StatusOr<PackedMatrix> PackedMatrix::Pack(const WeightSource& source, NumericsClass numerics) {
  TANDEM_RETURN_IF_ERROR(source.Validate());
  PackedMatrix matrix;
  matrix.view_ = ShapeOf(source, numerics);
  const PackedView& view = matrix.view_;
  const std::int64_t panels = RoundUp(source.n, kPanelColumns) / kPanelColumns;
  TANDEM_ASSIGN_OR_RETURN(matrix.buffer_, AlignedBuffer::Allocate(panels * view.panel_bytes));
  std::byte* data = matrix.buffer_.data();
  matrix.view_.data = reinterpret_cast<const std::uint8_t*>(data);

  const bool quantized = view.group != 0;
  DecodedRow decoded;
  if (quantized) {
    decoded.q.resize(source.k);
    decoded.scale.resize(source.k / view.group);
    decoded.min.resize(source.k / view.group);
  }
  const std::int64_t width = view.layout == WeightLayout::kPanelF32 ? 4 : 2;
  for (std::int64_t row = 0; row < source.n; ++row) {
    std::byte* panel = data + row / kPanelColumns * view.panel_bytes;
    const std::int64_t column = row % kPanelColumns;
    if (view.layout == WeightLayout::kRowsF32) {
      DequantizeRow(source.type, source.row(row), source.k,
                    reinterpret_cast<float*>(data) + row * source.k);
    } else if (!quantized) {
      PackFloatRow(source.row(row), source.k, width, panel + column * width);
    } else {
      DecodeRow(source.type, source.row(row), source.k, decoded.q.data(), decoded.scale.data(),
                decoded.min.data());
      PackQuantizedRow(view, decoded, column, panel);
    }
  }
  return matrix;
}

}  // namespace tandem::ops
