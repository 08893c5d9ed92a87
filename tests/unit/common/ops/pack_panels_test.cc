// Packed bytes against the definition of each layout in kernels.h, one element at a time.
#include "common/ops/pack_panels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/ops/packed_matrix.h"
#include "tests/unit/common/ops/ops_testing.h"

namespace tandem::ops {
namespace {

// Where the element of column `c` and index `i` of a group lies, in half bytes.
std::int64_t HalfBytesTo(WeightLayout layout, std::int64_t i, std::int64_t c) {
  switch (layout) {
    case WeightLayout::kPanelVnni:
      return 2 * (i / 4 * 64 + c * 4 + i % 4);
    case WeightLayout::kPanelVnni4:
      return 2 * (i / 8 * 64 + c * 4 + i % 4) + i % 8 / 4;
    default:
      return 2 * (i * kPanelColumns + c);
  }
}

void PutQuantised(const PackedView& view, const WeightSource& source, std::byte* out) {
  std::vector<std::int8_t> q(source.k);
  std::vector<float> scale(source.k / view.group);
  std::vector<float> min(source.k / view.group);
  const bool nibbles = view.layout == WeightLayout::kPanelVnni4;
  const int offset = view.layout == WeightLayout::kPanelInt8 || view.has_min != 0 ? 0
                     : nibbles                                                    ? 8
                                                                                  : 128;
  const std::int64_t values = kPanelColumns * view.group / (nibbles ? 2 : 1);
  for (std::int64_t row = 0; row < source.n; ++row) {  // those past n stay zero
    DecodeRow(source.type, source.row(row), source.k, q.data(), scale.data(), min.data());
    const std::int64_t c = row % kPanelColumns;
    for (std::int64_t i = 0; i < source.k; ++i) {
      std::byte* block =
          out + row / kPanelColumns * view.panel_bytes + i / view.group * view.block_bytes;
      const std::int64_t at = HalfBytesTo(view.layout, i % view.group, c);
      block[at / 2] |= static_cast<std::byte>((q[i] + offset) << at % 2 * 4);
      std::memcpy(block + values + c * 4, &scale[i / view.group], 4);
      if (view.has_min != 0) std::memcpy(block + values + 64 + c * 4, &min[i / view.group], 4);
    }
  }
}

bool IsTiles(WeightLayout layout) {
  return layout == WeightLayout::kTileNibble || layout == WeightLayout::kTileByte ||
         layout == WeightLayout::kTileBf16;
}

// `value` as f32 or, exactly, as a half.
void PutFactor(const PackedView& view, float value, std::int64_t index, std::byte* factors) {
  if (view.half_factors == 0) {
    std::memcpy(factors + index * 4, &value, 4);
    return;
  }
  int exponent = 0;
  const float mantissa = std::frexp(std::abs(value), &exponent);  // in [0.5, 1)
  const auto bits = static_cast<std::uint16_t>(
      (value < 0 ? 0x8000 : 0) +
      (value == 0       ? 0
       : exponent > -14 ? ((exponent + 13) << 10) + static_cast<int>(std::ldexp(mantissa, 11))
                        : static_cast<int>(std::ldexp(mantissa, exponent + 24))));
  std::memcpy(factors + index * 2, &bits, 2);
}

void PutTiles(const PackedView& view, const WeightSource& source, std::byte* out) {
  std::vector<std::int8_t> q(source.k);
  std::vector<float> scale(source.k);
  std::vector<float> min(source.k);
  const bool nibbles = view.layout == WeightLayout::kTileNibble;
  for (std::int64_t row = 0; row < source.n; ++row) {
    const std::int64_t c = row % kPanelColumns;
    if (view.group != 0) {
      DecodeRow(source.type, source.row(row), source.k, q.data(), scale.data(), min.data());
    }
    for (std::int64_t i = 0; i < source.k; ++i) {
      std::byte* block = out + row / kPanelColumns * view.panel_bytes + i / 32 * view.block_bytes;
      const std::int64_t e = i % 32;
      if (view.group == 0) {
        std::memcpy(block + (c * 32 + e) * 2, source.row(row) + i * 2, 2);
        continue;
      }
      if (nibbles) {
        block[c / 4 * 64 + e * 2 + c % 4 / 2] |=
            static_cast<std::byte>((q[i] + (view.has_min != 0 ? 0 : 8)) << c % 2 * 4);
      } else {
        block[c / 2 * 64 + e / 2 * 4 + c % 2 * 2 + e % 2] = static_cast<std::byte>(q[i]);
      }
      std::byte* factors = block + (nibbles ? 256 : 512);
      PutFactor(view, scale[i / view.group], e / view.group * kPanelColumns + c, factors);
      if (view.has_min != 0) PutFactor(view, min[i / view.group], kPanelColumns + c, factors);
    }
  }
}

void PutFloats(const PackedView& view, const WeightSource& source, std::byte* out) {
  const bool halves =
      view.layout == WeightLayout::kPanelF16 || view.layout == WeightLayout::kPanelBf16;
  const std::int64_t width = halves ? 2 : 4;
  std::vector<float> row(source.k);
  for (std::int64_t n = 0; n < source.n; ++n) {
    if (view.layout == WeightLayout::kRowsF32) {
      DequantizeRow(source.type, source.row(n), source.k, row.data());
      std::memcpy(out + n * source.k * 4, row.data(), static_cast<std::size_t>(source.k) * 4);
      continue;
    }
    for (std::int64_t i = 0; i < source.k; ++i) {
      std::memcpy(out + n / kPanelColumns * view.panel_bytes +
                      (i * kPanelColumns + n % kPanelColumns) * width,
                  source.row(n) + i * width, static_cast<std::size_t>(width));
    }
  }
}

std::vector<std::byte> Expected(const PackedView& view, const WeightSource& source) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(PackedMatrix::BytesOf(view)));
  if (IsTiles(view.layout)) {
    PutTiles(view, source, bytes.data());
  } else if (view.group == 0) {
    PutFloats(view, source, bytes.data());
  } else {
    PutQuantised(view, source, bytes.data());
  }
  return bytes;
}

// Bytes that packing must overwrite, in memory of exactly the size.
std::vector<std::byte> Dirty(const PackedView& view) {
  return std::vector<std::byte>(static_cast<std::size_t>(PackedMatrix::BytesOf(view)),
                                std::byte{0xa5});
}

TEST(PackPanelsTest, EveryTypeAndClassLiesAsItsLayoutSays) {
  for (const NumericsClass numerics : {NumericsClass::kScalarF32, NumericsClass::kAvx2,
                                       NumericsClass::kAvx512Vnni, NumericsClass::kAmx}) {
    for (const WeightType type : kAllTypes) {
      for (const std::int64_t n : {1, 16, 35}) {
        const std::int64_t block = Info(type).block_elems;
        for (const std::int64_t k : {block, 3 * block, block == 1 ? 37 : 9 * block}) {
          const OwnedWeights weights = RandomWeights(type, n, k, 100 * n + k);
          const PackedView view = PackedMatrix::ShapeOf(weights.source, numerics);
          std::vector<std::byte> packed = Dirty(view);
          PackPanels(weights.source, view, {0, PackedMatrix::PanelsOf(view)}, packed.data());
          ASSERT_EQ(packed, Expected(view, weights.source))
              << TypeName(type) << " [" << n << ", " << k << "] for " << Name(numerics);
        }
      }
    }
  }
}

TEST(PackPanelsTest, PanelsMayBePackedInAnyOrder) {
  for (const WeightType type : {WeightType::kF16, WeightType::kQ4_1, WeightType::kQ6_K}) {
    OwnedWeights weights = RandomWeights(type, 72, 512, 3);
    weights.source.interleaved = 36;
    const PackedView view = PackedMatrix::ShapeOf(weights.source, NumericsClass::kAvx512Vnni);
    std::vector<std::byte> packed = Dirty(view);
    for (const Range panels : {Range{3, 5}, Range{0, 1}, Range{1, 3}}) {
      PackPanels(weights.source, view, panels, packed.data() + panels.begin * view.panel_bytes);
    }
    EXPECT_EQ(packed, Expected(view, weights.source)) << TypeName(type);
  }
}

TEST(PackPanelsTest, AMatrixPackedInMemoryOfItsOwnIsTheSame) {
  const OwnedWeights weights = RandomWeights(WeightType::kQ5_0, 33, 96, 4);
  const auto matrix = PackedMatrix::Pack(weights.source, NumericsClass::kAvx2);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  const std::vector<std::byte> expected = Expected(matrix->view(), weights.source);
  ASSERT_EQ(matrix->bytes(), static_cast<std::int64_t>(expected.size()));
  EXPECT_EQ(std::memcmp(matrix->view().data, expected.data(), expected.size()), 0);
}

}  // namespace
}  // namespace tandem::ops
