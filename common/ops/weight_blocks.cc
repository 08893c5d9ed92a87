#include "common/ops/weight_blocks.h"

#include <array>
#include <bit>
#include <cstring>

#include "common/base/check.h"

namespace tandem::ops {
namespace {

constexpr std::array<WeightTypeInfo, 11> kInfo = {{
    {1, 4, 0, false, false},       // F32
    {1, 2, 0, false, false},       // F16
    {1, 2, 0, false, false},       // BF16
    {32, 18, 32, false, true},     // Q4_0
    {32, 20, 32, true, true},      // Q4_1
    {32, 22, 32, false, false},    // Q5_0
    {32, 24, 32, true, false},     // Q5_1
    {32, 34, 32, false, false},    // Q8_0
    {256, 144, 32, true, true},    // Q4_K
    {256, 176, 32, true, false},   // Q5_K
    {256, 210, 16, false, false},  // Q6_K
}};

std::uint8_t U8(const std::byte* p) { return std::to_integer<std::uint8_t>(*p); }

std::uint16_t U16(const std::byte* p) {
  std::uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

std::uint32_t U32(const std::byte* p) {
  std::uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

float HalfToFloat(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in f32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// Low nibbles are elements 0..15, high nibbles 16..31.
void Nibbles(const std::byte* bytes, std::int8_t* q) {
  for (int i = 0; i < 16; ++i) {
    q[i] = static_cast<std::int8_t>(U8(bytes + i) & 15);
    q[i + 16] = static_cast<std::int8_t>(U8(bytes + i) >> 4);
  }
}

void AddHighBits(std::uint32_t bits, std::int8_t* q) {
  for (int i = 0; i < 32; ++i) {
    q[i] = static_cast<std::int8_t>(q[i] | static_cast<int>((bits >> i) & 1u) << 4);
  }
}

// The 32-element types. Block bytes: d, then m if any, then high bits if any, then the elements.
void DecodeSmall(WeightType type, const std::byte* block, std::int8_t* q, float* scale,
                 float* min) {
  *scale = HalfToFloat(U16(block));
  *min = 0;
  int offset = 0;
  switch (type) {
    case WeightType::kQ4_0:
      Nibbles(block + 2, q);
      offset = 8;
      break;
    case WeightType::kQ4_1:
      *min = HalfToFloat(U16(block + 2));
      Nibbles(block + 4, q);
      break;
    case WeightType::kQ5_0:
      Nibbles(block + 6, q);
      AddHighBits(U32(block + 2), q);
      offset = 16;
      break;
    case WeightType::kQ5_1:
      *min = HalfToFloat(U16(block + 2));
      Nibbles(block + 8, q);
      AddHighBits(U32(block + 4), q);
      break;
    default:
      std::memcpy(q, block + 2, 32);
      break;
  }
  for (int i = 0; i < 32; ++i) q[i] = static_cast<std::int8_t>(q[i] - offset);
}

// 6-bit scale and min of sub-block `index` of Q4_K and Q5_K.
void ScaleAndMin(const std::byte* s, int index, int* scale, int* min) {
  if (index < 4) {
    *scale = U8(s + index) & 63;
    *min = U8(s + index + 4) & 63;
  } else {
    *scale = (U8(s + index + 4) & 15) | (U8(s + index - 4) >> 6) << 4;
    *min = (U8(s + index + 4) >> 4) | (U8(s + index) >> 6) << 4;
  }
}

// Q4_K and Q5_K: d, dmin, 12 scale bytes, (32 bytes of high bits), 128 bytes of nibbles.
void DecodeQ45K(WeightType type, const std::byte* block, std::int8_t* q, float* scale, float* min) {
  const float d = HalfToFloat(U16(block));
  const float dmin = HalfToFloat(U16(block + 2));
  const bool high = type == WeightType::kQ5_K;
  const std::byte* nibbles = block + (high ? 48 : 16);
  for (int sub = 0; sub < 8; ++sub) {
    int sub_scale = 0;
    int sub_min = 0;
    ScaleAndMin(block + 4, sub, &sub_scale, &sub_min);
    scale[sub] = d * static_cast<float>(sub_scale);
    min[sub] = -(dmin * static_cast<float>(sub_min));
    for (int i = 0; i < 32; ++i) {
      const int byte = U8(nibbles + sub / 2 * 32 + i);
      int value = sub % 2 == 0 ? byte & 15 : byte >> 4;
      if (high) value += (U8(block + 16 + i) >> sub & 1) << 4;
      q[sub * 32 + i] = static_cast<std::int8_t>(value);
    }
  }
}

// Q6_K: ql[128], qh[64], 16 i8 scales, d. Two halves of 128 elements.
void DecodeQ6K(const std::byte* block, std::int8_t* q, float* scale, float* min) {
  const float d = HalfToFloat(U16(block + 208));
  for (int i = 0; i < 16; ++i) {
    scale[i] = d * static_cast<float>(static_cast<std::int8_t>(U8(block + 192 + i)));
    min[i] = 0;
  }
  for (int half = 0; half < 2; ++half) {
    const std::byte* low = block + half * 64;
    const std::byte* top = block + 128 + half * 32;
    std::int8_t* out = q + half * 128;
    for (int l = 0; l < 32; ++l) {
      const int bits = U8(top + l);
      const int a = U8(low + l);
      const int b = U8(low + l + 32);
      out[l] = static_cast<std::int8_t>(((a & 15) | (bits & 3) << 4) - 32);
      out[l + 32] = static_cast<std::int8_t>(((b & 15) | (bits >> 2 & 3) << 4) - 32);
      out[l + 64] = static_cast<std::int8_t>((a >> 4 | (bits >> 4 & 3) << 4) - 32);
      out[l + 96] = static_cast<std::int8_t>((b >> 4 | (bits >> 6 & 3) << 4) - 32);
    }
  }
}

}  // namespace

const WeightTypeInfo& Info(WeightType type) { return kInfo[static_cast<std::size_t>(type)]; }

Status WeightSource::Validate() const {
  constexpr std::int64_t kMaxSize = std::int64_t{1} << 24;
  if (n < 1 || n > kMaxSize || k < 1 || k > kMaxSize) {
    return InvalidArgument("matrix [{}, {}]: each size must be in 1..{}", n, k, kMaxSize);
  }
  if (k % Info(type).block_elems != 0) {
    return InvalidArgument("matrix [{}, {}]: rows must be whole blocks of {} elements", n, k,
                           Info(type).block_elems);
  }
  const std::int64_t expected = n * row_bytes();
  if (static_cast<std::int64_t>(bytes.size()) != expected) {
    return InvalidArgument("matrix [{}, {}] takes {} bytes, {} given", n, k, expected,
                           bytes.size());
  }
  return OkStatus();
}

void DecodeRow(WeightType type, const std::byte* row, std::int64_t k, std::int8_t* q, float* scale,
               float* min) {
  const WeightTypeInfo& info = Info(type);
  TANDEM_CHECK(info.group != 0);
  const int groups = info.block_elems / info.group;
  for (std::int64_t i = 0; i < k; i += info.block_elems, row += info.block_bytes) {
    if (info.block_elems == 32) {
      DecodeSmall(type, row, q + i, scale, min);
    } else if (type == WeightType::kQ6_K) {
      DecodeQ6K(row, q + i, scale, min);
    } else {
      DecodeQ45K(type, row, q + i, scale, min);
    }
    scale += groups;
    min += groups;
  }
}

void DequantizeRow(WeightType type, const std::byte* row, std::int64_t k, float* out) {
  switch (type) {
    case WeightType::kF32:
      std::memcpy(out, row, static_cast<std::size_t>(k) * sizeof(float));
      return;
    case WeightType::kF16:
      for (std::int64_t i = 0; i < k; ++i) out[i] = HalfToFloat(U16(row + 2 * i));
      return;
    case WeightType::kBF16:
      for (std::int64_t i = 0; i < k; ++i) {
        out[i] = std::bit_cast<float>(std::uint32_t{U16(row + 2 * i)} << 16);
      }
      return;
    default:
      break;
  }
  const WeightTypeInfo& info = Info(type);
  std::int8_t q[256];
  float scale[16];
  float min[16];
  for (std::int64_t i = 0; i < k; i += info.block_elems, row += info.block_bytes) {
    DecodeRow(type, row, info.block_elems, q, scale, min);
    for (int j = 0; j < info.block_elems; ++j) {
      out[i + j] = scale[j / info.group] * static_cast<float>(q[j]) + min[j / info.group];
    }
  }
}

}  // namespace tandem::ops
