#include "tests/testing/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/base/check.h"
#include "common/formats/dequantize.h"

namespace tandem::testing {
namespace {

using formats::DType;

template <typename T>
void Store(std::uint8_t* out, T value) {
  std::memcpy(out, &value, sizeof(T));
}

// Stores `value` as f16 and gives back what will be read.
float StoreHalf(std::uint8_t* out, float value) {
  std::uint16_t half = formats::F32ToF16(value);
  Store(out, half);
  return formats::F16ToF32(half);
}

int Round(float value, float scale, int low, int high) {
  if (scale == 0.0f) return std::clamp(0, low, high);
  return std::clamp(static_cast<int>(std::lround(value / scale)), low, high);
}

float Largest(std::span<const float> in) {  // by magnitude, with its sign
  float best = 0.0f;
  for (float x : in) {
    if (std::fabs(x) > std::fabs(best)) best = x;
  }
  return best;
}

void PackNibble(std::uint8_t* nibbles, int element, int q) {
  nibbles[element % 16] |= static_cast<std::uint8_t>(element < 16 ? q & 15 : (q & 15) << 4);
}

// Q4_0 and Q5_0: q = x/d + half, half 8 or 16; the largest magnitude maps to q = 0.
void EncodeSymmetric(std::span<const float> in, int half, std::uint8_t* out) {
  const float d = StoreHalf(out, Largest(in) / static_cast<float>(-half));
  const bool five = half == 16;
  std::uint32_t high = 0;
  for (int j = 0; j < 32; ++j) {
    const int q = Round(in[j], d, -half, half - 1) + half;
    PackNibble(out + (five ? 6 : 2), j, q);
    high |= static_cast<std::uint32_t>(q >> 4) << j;
  }
  if (five) Store(out + 2, high);
}

// Q4_1 and Q5_1: q = (x − min)/d, up to `top` 15 or 31.
void EncodeWithMin(std::span<const float> in, int top, std::uint8_t* out) {
  const auto [low, highest] = std::minmax_element(in.begin(), in.end());
  const float d = StoreHalf(out, (*highest - *low) / static_cast<float>(top));
  const float min = StoreHalf(out + 2, *low);
  const bool five = top == 31;
  std::uint32_t high = 0;
  for (int j = 0; j < 32; ++j) {
    const int q = Round(in[j] - min, d, 0, top);
    PackNibble(out + (five ? 8 : 4), j, q);
    high |= static_cast<std::uint32_t>(q >> 4) << j;
  }
  if (five) Store(out + 4, high);
}

void EncodeQ8_0(std::span<const float> in, std::uint8_t* out) {
  const float d = StoreHalf(out, std::fabs(Largest(in)) / 127.0f);
  for (int j = 0; j < 32; ++j) out[2 + j] = static_cast<std::uint8_t>(Round(in[j], d, -127, 127));
}

void PackScaleMin(std::uint8_t* packed, int i, int scale, int min) {
  if (i < 4) {
    packed[i] |= static_cast<std::uint8_t>(scale);
    packed[i + 4] |= static_cast<std::uint8_t>(min);
    return;
  }
  packed[i + 4] = static_cast<std::uint8_t>((scale & 15) | (min & 15) << 4);
  packed[i - 4] |= static_cast<std::uint8_t>((scale >> 4) << 6);
  packed[i] |= static_cast<std::uint8_t>((min >> 4) << 6);
}

// Q4_K (top 15) and Q5_K (top 31): eight sub-blocks of 32 with six-bit scales and mins.
void EncodeQ45K(std::span<const float> in, int top, std::uint8_t* out) {
  std::array<float, 8> scales;
  std::array<float, 8> mins;
  for (int i = 0; i < 8; ++i) {
    auto block = in.subspan(32 * i, 32);
    const auto [low, high] = std::minmax_element(block.begin(), block.end());
    mins[i] = std::max(0.0f, -*low);
    scales[i] = std::max(0.0f, *high + mins[i]) / static_cast<float>(top);
  }
  const float d = StoreHalf(out, *std::max_element(scales.begin(), scales.end()) / 63.0f);
  const float dmin = StoreHalf(out + 2, *std::max_element(mins.begin(), mins.end()) / 63.0f);
  std::uint8_t* high_bits = top == 31 ? out + 16 : nullptr;
  std::uint8_t* nibbles = out + (top == 31 ? 48 : 16);
  for (int i = 0; i < 8; ++i) {
    const int scale = Round(scales[i], d, 0, 63);
    const int min = Round(mins[i], dmin, 0, 63);
    PackScaleMin(out + 4, i, scale, min);
    const float step = d * static_cast<float>(scale);
    const float offset = dmin * static_cast<float>(min);
    for (int l = 0; l < 32; ++l) {
      const int q = Round(in[32 * i + l] + offset, step, 0, top);
      nibbles[32 * (i / 2) + l] |= static_cast<std::uint8_t>((q & 15) << (i % 2 == 0 ? 0 : 4));
      if (high_bits != nullptr) high_bits[l] |= static_cast<std::uint8_t>((q >> 4) << i);
    }
  }
}

// Sixteen sub-blocks of 16 with signed eight-bit scales.
void EncodeQ6_K(std::span<const float> in, std::uint8_t* out) {
  std::array<float, 16> scales;
  for (int i = 0; i < 16; ++i) scales[i] = Largest(in.subspan(16 * i, 16)) / -32.0f;
  const float d = StoreHalf(out + 208, std::fabs(Largest(scales)) / 127.0f);
  for (int i = 0; i < 16; ++i) {
    const int scale = Round(scales[i], d, -127, 127);
    out[192 + i] = static_cast<std::uint8_t>(scale);
    for (int l = 0; l < 16; ++l) {
      const int element = 16 * i + l;
      const int q = Round(in[element], d * static_cast<float>(scale), -32, 31) + 32;
      const int half = element / 128;
      const int quarter = element / 32 % 4;
      const int column = element % 32;
      std::uint8_t& low = out[64 * half + 32 * (quarter % 2) + column];
      low |= static_cast<std::uint8_t>((q & 15) << (quarter < 2 ? 0 : 4));
      out[128 + 32 * half + column] |= static_cast<std::uint8_t>((q >> 4) << 2 * quarter);
    }
  }
}

void EncodeBlock(DType dtype, std::span<const float> in, std::uint8_t* out) {
  switch (dtype) {
    case DType::kF32:
      return Store(out, in[0]);
    case DType::kF16:
      return Store(out, formats::F32ToF16(in[0]));
    case DType::kBF16:
      return Store(out, formats::F32ToBF16(in[0]));
    case DType::kQ4_0:
      return EncodeSymmetric(in, 8, out);
    case DType::kQ4_1:
      return EncodeWithMin(in, 15, out);
    case DType::kQ5_0:
      return EncodeSymmetric(in, 16, out);
    case DType::kQ5_1:
      return EncodeWithMin(in, 31, out);
    case DType::kQ8_0:
      return EncodeQ8_0(in, out);
    case DType::kQ4_K:
      return EncodeQ45K(in, 15, out);
    case DType::kQ5_K:
      return EncodeQ45K(in, 31, out);
    case DType::kQ6_K:
      return EncodeQ6_K(in, out);
  }
}

}  // namespace

std::vector<std::byte> Quantize(DType dtype, std::span<const float> values) {
  const formats::DTypeInfo& info = formats::Info(dtype);
  auto bytes = formats::BytesFor(dtype, static_cast<std::int64_t>(values.size()));
  TANDEM_CHECK(bytes.has_value());
  std::vector<std::byte> out(static_cast<std::size_t>(*bytes));
  auto* at = reinterpret_cast<std::uint8_t*>(out.data());
  const auto step = static_cast<std::size_t>(info.block_elems);
  for (std::size_t i = 0; i < values.size(); i += step, at += info.block_bytes) {
    EncodeBlock(dtype, values.subspan(i, step), at);
  }
  return out;
}

std::vector<float> Dequantized(DType dtype, std::span<const std::byte> bytes) {
  const formats::DTypeInfo& info = formats::Info(dtype);
  std::vector<float> out(bytes.size() / static_cast<std::size_t>(info.block_bytes) *
                         static_cast<std::size_t>(info.block_elems));
  TANDEM_CHECK(formats::Dequantize(dtype, bytes, out).ok());
  return out;
}

DType DTypeForRows(DType wanted, std::int64_t cols) {
  if (formats::BytesFor(wanted, cols).has_value()) return wanted;
  if (cols % 32 != 0) return DType::kF16;
  switch (wanted) {
    case DType::kQ4_K:
      return DType::kQ5_0;
    case DType::kQ5_K:
      return DType::kQ5_1;
    default:
      return DType::kQ8_0;
  }
}

}  // namespace tandem::testing
