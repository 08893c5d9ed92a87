#include "common/ops/packed_matrix.h"

#include "common/ops/pack_panels.h"

namespace tandem::ops {
namespace {

WeightLayout LayoutFor(WeightType type, NumericsClass numerics) {
  if (numerics == NumericsClass::kScalarF32) return WeightLayout::kRowsF32;
  const ActivationImage image = ImageOf(numerics);
  const bool nibble = Info(type).nibble;
  switch (type) {
    case WeightType::kF32:
      return WeightLayout::kPanelF32;
    case WeightType::kF16:
      return WeightLayout::kPanelF16;
    case WeightType::kBF16:
      return image == ActivationImage::kBf16 ? WeightLayout::kTileBf16 : WeightLayout::kPanelBf16;
    default:
      break;
  }
  switch (image) {
    case ActivationImage::kNone:
      return WeightLayout::kPanelInt8;
    case ActivationImage::kInt8:
      return nibble ? WeightLayout::kPanelVnni4 : WeightLayout::kPanelVnni;
    case ActivationImage::kBf16:
      break;
  }
  return nibble ? WeightLayout::kTileNibble : WeightLayout::kTileByte;
}

// The part of the shape that quantised weights in tiles have, and bf16 ones.
void ShapeTiles(const WeightTypeInfo& info, PackedView& view) {
  view.group_count = RoundUp(view.k, 32) / 32;
  if (view.layout == WeightLayout::kTileBf16) {
    view.block_bytes = kPanelColumns * 32 * 2;
  } else {
    view.group = info.group;
    view.has_min = info.has_min ? 1 : 0;
    view.half_factors = info.half_factors ? 1 : 0;
    const std::int64_t factors = 32 / info.group + view.has_min;
    view.block_bytes = kPanelColumns * (view.layout == WeightLayout::kTileNibble ? 16 : 32) +
                       factors * kPanelColumns * (info.half_factors ? 2 : 4);
  }
  view.panel_bytes = view.group_count * view.block_bytes;
}

}  // namespace

PackedView PackedMatrix::ShapeOf(const WeightSource& source, NumericsClass numerics) {
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
    case WeightLayout::kTileNibble:
    case WeightLayout::kTileByte:
    case WeightLayout::kTileBf16:
      ShapeTiles(Info(source.type), view);
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

StatusOr<PackedMatrix> PackedMatrix::Pack(const WeightSource& source, NumericsClass numerics) {
  TANDEM_RETURN_IF_ERROR(source.Validate());
  PackedMatrix matrix;
  matrix.view_ = ShapeOf(source, numerics);
  TANDEM_ASSIGN_OR_RETURN(matrix.buffer_, AlignedBuffer::Allocate(BytesOf(matrix.view_)));
  PackPanels(source, matrix.view_, {0, PanelsOf(matrix.view_)}, matrix.buffer_.data());
  matrix.view_.data = matrix.buffer_.As<const std::uint8_t>();
  return matrix;
}

PackedMatrix PackedMatrix::At(const PackedView& view) {
  PackedMatrix matrix;
  matrix.view_ = view;
  return matrix;
}

}  // namespace tandem::ops
