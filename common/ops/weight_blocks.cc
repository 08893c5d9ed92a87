#include "common/ops/weight_blocks.h"

#include <array>
#include <bit>
#include <cstring>

#include "common/base/check.h"
#include "common/ops/byte_vectors.h"

namespace tandem::ops {
namespace {

constexpr std::array<WeightTypeInfo, 11> kInfo = {{
    {1, 4, 0, false, false, false},       // F32
    {1, 2, 0, false, false, false},       // F16
    {1, 2, 0, false, false, false},       // BF16
    {32, 18, 32, false, true, true},      // Q4_0
    {32, 20, 32, true, true, true},       // Q4_1
    {32, 22, 32, false, false, true},     // Q5_0
    {32, 24, 32, true, false, true},      // Q5_1
    {32, 34, 32, false, false, true},     // Q8_0
    {256, 144, 32, true, true, false},    // Q4_K
    {256, 176, 32, true, false, false},   // Q5_K
    {256, 210, 16, false, false, false},  // Q6_K
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

// Without branches: halves have no order that a predictor could learn.
float HalfToFloat(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  // Zero and subnormals are mantissa * 2^-24, exact in f32.
  const std::uint32_t small = std::bit_cast<std::uint32_t>(
      static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);
  const std::uint32_t special = magnitude << 13 | 0x7f800000u;  // infinity, NaN
  const std::uint32_t bits = magnitude < 0x0400u ? small : magnitude < 0x7c00u ? normal : special;
  return std::bit_cast<float>(sign | bits);
}

static_assert(std::endian::native == std::endian::little, "elements are taken many at a time");

using I32x4 = std::int32_t __attribute__((vector_size(16)));
using F32x4 = float __attribute__((vector_size(16)));

U8x16 Vector(const std::byte* p) { return LoadVector<U8x16>(p); }

// Sixteen bits as bit 4 of one byte each.
U8x16 SpreadToBit4(std::uint32_t bits) {
  const std::uint64_t ones = 0x0101010101010101u;
  const U64x2 each = {(bits & 0xff) * ones, (bits >> 8 & 0xff) * ones};
  const U8x16 mask = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  return (U8x16)(((U8x16)each & mask) == mask) & 16;
}

// The 32-element types. Block bytes: d, then m if any, then high bits if any, then the elements.
template <WeightType kType>
void DecodeSmall(const std::byte* block, std::int8_t* q) {
  constexpr bool kMin = kType == WeightType::kQ4_1 || kType == WeightType::kQ5_1;
  constexpr bool kHigh = kType == WeightType::kQ5_0 || kType == WeightType::kQ5_1;
  constexpr std::uint8_t kOffset = kType == WeightType::kQ4_0   ? 8
                                   : kType == WeightType::kQ5_0 ? 16
                                                                : 0;
  block += kMin ? 4 : 2;
  if constexpr (kType == WeightType::kQ8_0) {
    std::memcpy(q, block, 32);
    return;
  }
  const std::uint32_t high = kHigh ? U32(block) : 0;
  const U8x16 nibbles = Vector(block + (kHigh ? 4 : 0));
  // Low nibbles are elements 0..15, high nibbles 16..31.
  for (int half = 0; half < 2; ++half) {
    U8x16 elements = half == 0 ? nibbles & 15 : nibbles >> 4;
    if constexpr (kHigh) elements |= SpreadToBit4(high >> 16 * half);
    StoreVector(elements - kOffset, q + 16 * half);
  }
}

template <WeightType kType>
void SmallFactors(const std::byte* block, float* scale, float* min) {
  constexpr bool kMin = kType == WeightType::kQ4_1 || kType == WeightType::kQ5_1;
  *scale = HalfToFloat(U16(block));
  *min = kMin ? HalfToFloat(U16(block + 2)) : 0.0f;
}

// Q4_K and Q5_K: d, dmin, 12 scale bytes, (32 bytes of high bits), 128 bytes of nibbles.
template <bool kHigh>
void DecodeQ45K(const std::byte* block, std::int8_t* q) {
  const std::byte* nibbles = block + (kHigh ? 48 : 16);
  for (int part = 0; part < 32; part += 16) {
    U8x16 high = kHigh ? Vector(block + 16 + part) : U8x16{};  // bit i: of sub-block i
    for (int pair = 0; pair < 4; ++pair) {
      U8x16 first = Vector(nibbles + pair * 32 + part);
      U8x16 second = first >> 4;
      first &= 15;
      if constexpr (kHigh) {
        first |= high << 4 & 16;
        second |= high << 3 & 16;
        high >>= 2;
      }
      StoreVector(first, q + pair * 64 + part);
      StoreVector(second, q + pair * 64 + 32 + part);
    }
  }
}

// Four bytes times `factor`.
F32x4 FourTimes(std::uint32_t bytes, float factor) {
  const U8x16 narrow = (U8x16)U32x4{bytes, 0, 0, 0};
  const auto wide = (I32x4)ZipLow((U16x8)ZipLow(narrow, U8x16{}), U16x8{});
  return factor * __builtin_convertvector(wide, F32x4);
}

// The 12 scale bytes hold scale and min of 8 sub-blocks in 6 bits each: those of the first four in
// the low bits of bytes 0..3 and 4..7; of the others, the low four bits in the nibbles of bytes
// 8..11, and the top two above the first ones'.
void Q45KFactors(const std::byte* block, float* scale, float* min) {
  const float d = HalfToFloat(U16(block));
  const float dmin = HalfToFloat(U16(block + 2));
  const std::uint32_t a = U32(block + 4);
  const std::uint32_t b = U32(block + 8);
  const std::uint32_t c = U32(block + 12);
  StoreVector(FourTimes(a & 0x3f3f3f3fu, d), scale);
  StoreVector(FourTimes((c & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u), d), scale + 4);
  StoreVector(-FourTimes(b & 0x3f3f3f3fu, dmin), min);
  StoreVector(-FourTimes((c >> 4 & 0x0f0f0f0fu) | (b >> 2 & 0x30303030u), dmin), min + 4);
}

// Q6_K: ql[128], qh[64], 16 i8 scales, d. Two halves of 128 elements.
void DecodeQ6K(const std::byte* block, std::int8_t* q) {
  for (int half = 0; half < 2; ++half) {
    const std::byte* low = block + half * 64;
    const std::byte* top = block + 128 + half * 32;
    for (int part = 0; part < 32; part += 16) {
      std::int8_t* out = q + half * 128 + part;
      const U8x16 a = Vector(low + part);
      const U8x16 b = Vector(low + 32 + part);
      const U8x16 high = Vector(top + part);
      StoreVector(((a & 15) | (high << 4 & 48)) - 32, out);
      StoreVector(((b & 15) | (high << 2 & 48)) - 32, out + 32);
      StoreVector((a >> 4 | (high & 48)) - 32, out + 64);
      StoreVector((b >> 4 | (high >> 2 & 48)) - 32, out + 96);
    }
  }
}

void Q6KFactors(const std::byte* block, float* scale, float* min) {
  const float d = HalfToFloat(U16(block + 208));
  for (int i = 0; i < 16; ++i) {
    scale[i] = d * static_cast<float>(static_cast<std::int8_t>(U8(block + 192 + i)));
    min[i] = 0;
  }
}

template <void (*decode)(const std::byte*, std::int8_t*)>
void DecodeBlocks(const WeightTypeInfo& info, const std::byte* row, std::int64_t k,
                  std::int8_t* q) {
  for (std::int64_t i = 0; i < k; i += info.block_elems, row += info.block_bytes) {
    decode(row, q + i);
  }
}

// The factors of a row's blocks.
void DecodeFactors(WeightType type, const std::byte* row, std::int64_t k, float* scale,
                   float* min) {
  const WeightTypeInfo& info = Info(type);
  const int groups = info.block_elems / info.group;
  for (std::int64_t i = 0; i < k; i += info.block_elems, row += info.block_bytes) {
    switch (type) {
      case WeightType::kQ4_1:
      case WeightType::kQ5_1:
        SmallFactors<WeightType::kQ4_1>(row, scale, min);
        break;
      case WeightType::kQ4_K:
      case WeightType::kQ5_K:
        Q45KFactors(row, scale, min);
        break;
      case WeightType::kQ6_K:
        Q6KFactors(row, scale, min);
        break;
      default:
        SmallFactors<WeightType::kQ8_0>(row, scale, min);
        break;
    }
    scale += groups;
    min += groups;
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
  if (interleaved != 0 && (interleaved < 0 || interleaved % 2 != 0 || n % interleaved != 0)) {
    return InvalidArgument("matrix [{}, {}]: {} rows are no whole runs of {} interleaved ones", n,
                           k, n, interleaved);
  }
  return OkStatus();
}

void DecodeIntegers(WeightType type, const std::byte* row, std::int64_t k, std::int8_t* q) {
  const WeightTypeInfo& info = Info(type);
  switch (type) {
    case WeightType::kQ4_0:
      return DecodeBlocks<DecodeSmall<WeightType::kQ4_0>>(info, row, k, q);
    case WeightType::kQ4_1:
      return DecodeBlocks<DecodeSmall<WeightType::kQ4_1>>(info, row, k, q);
    case WeightType::kQ5_0:
      return DecodeBlocks<DecodeSmall<WeightType::kQ5_0>>(info, row, k, q);
    case WeightType::kQ5_1:
      return DecodeBlocks<DecodeSmall<WeightType::kQ5_1>>(info, row, k, q);
    case WeightType::kQ8_0:
      return DecodeBlocks<DecodeSmall<WeightType::kQ8_0>>(info, row, k, q);
    case WeightType::kQ4_K:
      return DecodeBlocks<DecodeQ45K<false>>(info, row, k, q);
    case WeightType::kQ5_K:
      return DecodeBlocks<DecodeQ45K<true>>(info, row, k, q);
    case WeightType::kQ6_K:
      return DecodeBlocks<DecodeQ6K>(info, row, k, q);
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBF16:
      break;
  }
  TANDEM_CHECK(info.group != 0);
}

void DecodeRow(WeightType type, const std::byte* row, std::int64_t k, std::int8_t* q, float* scale,
               float* min) {
  DecodeIntegers(type, row, k, q);
  DecodeFactors(type, row, k, scale, min);
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
