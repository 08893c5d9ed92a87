#include "common/ops/weight_blocks.h"

#include <array>
#include <bit>
#include <cstring>

#include "common/base/check.h"

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

static_assert(std::endian::native == std::endian::little, "elements are taken eight at a time");
constexpr std::uint64_t kOnes = 0x0101010101010101u;

std::uint64_t U64(const void* p) {
  std::uint64_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

void Store64(std::uint64_t value, std::int8_t* q) { std::memcpy(q, &value, sizeof value); }

// Each byte less `offset`, as int8. Requires: bytes and offset below 128.
std::uint64_t Less(std::uint64_t eight, std::uint64_t offset) {
  return ((eight | kOnes * 0x80) - kOnes * offset) ^ kOnes * 0x80;
}

// Bit i of `bits` (of 8) as bit 4 of byte i.
std::uint64_t SpreadToBit4(std::uint64_t bits) {
  const std::uint64_t spread = (bits & 0xff) * kOnes & 0x8040201008040201u;
  return ((spread + kOnes * 0x7f) >> 7 & kOnes) << 4;
}

// The 32-element types. Block bytes: d, then m if any, then high bits if any, then the elements.
template <WeightType kType>
void DecodeSmall(const std::byte* block, std::int8_t* q, float* scale, float* min) {
  constexpr bool kMin = kType == WeightType::kQ4_1 || kType == WeightType::kQ5_1;
  constexpr bool kHigh = kType == WeightType::kQ5_0 || kType == WeightType::kQ5_1;
  constexpr int kOffset = kType == WeightType::kQ4_0 ? 8 : kType == WeightType::kQ5_0 ? 16 : 0;
  *scale = HalfToFloat(U16(block));
  *min = kMin ? HalfToFloat(U16(block + 2)) : 0.0f;
  block += kMin ? 4 : 2;
  if constexpr (kType == WeightType::kQ8_0) {
    std::memcpy(q, block, 32);
    return;
  }
  const std::uint32_t high = kHigh ? U32(block) : 0;
  block += kHigh ? 4 : 0;
  // Low nibbles are elements 0..15, high nibbles 16..31.
  for (int i = 0; i < 4; ++i) {
    std::uint64_t eight = U64(block + i % 2 * 8) >> i / 2 * 4 & kOnes * 15;
    if constexpr (kHigh) eight |= SpreadToBit4(high >> 8 * i);
    if constexpr (kOffset != 0) eight = Less(eight, kOffset);
    Store64(eight, q + 8 * i);
  }
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
template <bool kHigh>
void DecodeQ45K(const std::byte* block, std::int8_t* q, float* scale, float* min) {
  const float d = HalfToFloat(U16(block));
  const float dmin = HalfToFloat(U16(block + 2));
  const std::byte* nibbles = block + (kHigh ? 48 : 16);
  for (int sub = 0; sub < 8; ++sub) {
    int sub_scale = 0;
    int sub_min = 0;
    ScaleAndMin(block + 4, sub, &sub_scale, &sub_min);
    scale[sub] = d * static_cast<float>(sub_scale);
    min[sub] = -(dmin * static_cast<float>(sub_min));
    for (int i = 0; i < 32; i += 8) {
      std::uint64_t eight = U64(nibbles + sub / 2 * 32 + i) >> sub % 2 * 4 & kOnes * 15;
      if constexpr (kHigh) eight |= (U64(block + 16 + i) >> sub & kOnes) << 4;
      Store64(eight, q + sub * 32 + i);
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
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int i = 0; i < 32; i += 8) {
        const std::uint64_t nibbles =
            U64(low + quarter % 2 * 32 + i) >> quarter / 2 * 4 & kOnes * 15;
        const std::uint64_t bits = (U64(top + i) >> quarter * 2 & kOnes * 3) << 4;
        Store64(Less(nibbles | bits, 32), out + quarter * 32 + i);
      }
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
  if (interleaved != 0 && (interleaved < 0 || interleaved % 2 != 0 || n % interleaved != 0)) {
    return InvalidArgument("matrix [{}, {}]: {} rows are no whole runs of {} interleaved ones", n,
                           k, n, interleaved);
  }
  return OkStatus();
}

namespace {

template <void (*decode)(const std::byte*, std::int8_t*, float*, float*)>
void DecodeBlocks(const WeightTypeInfo& info, const std::byte* row, std::int64_t k, std::int8_t* q,
                  float* scale, float* min) {
  const int groups = info.block_elems / info.group;
  for (std::int64_t i = 0; i < k; i += info.block_elems, row += info.block_bytes) {
    decode(row, q + i, scale, min);
    scale += groups;
    min += groups;
  }
}

}  // namespace

void DecodeRow(WeightType type, const std::byte* row, std::int64_t k, std::int8_t* q, float* scale,
               float* min) {
  const WeightTypeInfo& info = Info(type);
  switch (type) {
    case WeightType::kQ4_0:
      return DecodeBlocks<DecodeSmall<WeightType::kQ4_0>>(info, row, k, q, scale, min);
    case WeightType::kQ4_1:
      return DecodeBlocks<DecodeSmall<WeightType::kQ4_1>>(info, row, k, q, scale, min);
    case WeightType::kQ5_0:
      return DecodeBlocks<DecodeSmall<WeightType::kQ5_0>>(info, row, k, q, scale, min);
    case WeightType::kQ5_1:
      return DecodeBlocks<DecodeSmall<WeightType::kQ5_1>>(info, row, k, q, scale, min);
    case WeightType::kQ8_0:
      return DecodeBlocks<DecodeSmall<WeightType::kQ8_0>>(info, row, k, q, scale, min);
    case WeightType::kQ4_K:
      return DecodeBlocks<DecodeQ45K<false>>(info, row, k, q, scale, min);
    case WeightType::kQ5_K:
      return DecodeBlocks<DecodeQ45K<true>>(info, row, k, q, scale, min);
    case WeightType::kQ6_K:
      return DecodeBlocks<DecodeQ6K>(info, row, k, q, scale, min);
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBF16:
      break;
  }
  TANDEM_CHECK(info.group != 0);
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
