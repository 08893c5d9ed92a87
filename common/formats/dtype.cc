#include "common/formats/dtype.h"

#include <array>
#include <bit>
#include <cmath>

#include "common/base/check.h"

namespace tandem::formats {
namespace {

constexpr std::array<DTypeInfo, 11> kInfos = {{
    {DType::kF32, "F32", 1, 4, 0},
    {DType::kF16, "F16", 1, 2, 1},
    {DType::kBF16, "BF16", 1, 2, 30},
    {DType::kQ4_0, "Q4_0", 32, 18, 2},
    {DType::kQ4_1, "Q4_1", 32, 20, 3},
    {DType::kQ5_0, "Q5_0", 32, 22, 6},
    {DType::kQ5_1, "Q5_1", 32, 24, 7},
    {DType::kQ8_0, "Q8_0", 32, 34, 8},
    {DType::kQ4_K, "Q4_K", 256, 144, 12},
    {DType::kQ5_K, "Q5_K", 256, 176, 13},
    {DType::kQ6_K, "Q6_K", 256, 210, 14},
}};

// ggml.h, enum ggml_type; an empty name was never used or has been removed.
constexpr std::array<std::string_view, 41> kGgufNames = {
    "F32",     "F16",   "Q4_0",   "Q4_1",  "",      "",       "Q5_0", "Q5_1",    "Q8_0",
    "Q8_1",    "Q2_K",  "Q3_K",   "Q4_K",  "Q5_K",  "Q6_K",   "Q8_K", "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",   "I16",     "I32",
    "I64",     "F64",   "IQ1_M",  "BF16",  "",      "",       "",     "TQ1_0",   "TQ2_0",
    "",        "",      "",       "MXFP4", "NVFP4"};

}  // namespace

const DTypeInfo& Info(DType dtype) {
  auto index = static_cast<std::size_t>(dtype);
  TANDEM_CHECK(index < kInfos.size());
  return kInfos[index];
}

std::span<const DTypeInfo> AllDTypes() { return kInfos; }

std::optional<DType> DTypeFromGguf(std::uint32_t id) {
  for (const DTypeInfo& info : kInfos) {
    if (info.gguf_id == id) return info.dtype;
  }
  return std::nullopt;
}

std::optional<DType> DTypeFromSafetensors(std::string_view name) {
  if (name == "F32") return DType::kF32;
  if (name == "F16") return DType::kF16;
  if (name == "BF16") return DType::kBF16;
  return std::nullopt;
}

std::string_view GgufTypeName(std::uint32_t id) {
  if (id >= kGgufNames.size() || kGgufNames[id].empty()) return "?";
  return kGgufNames[id];
}

std::optional<std::int64_t> BytesFor(DType dtype, std::int64_t elems) {
  const DTypeInfo& info = Info(dtype);
  if (elems < 0 || elems % info.block_elems != 0) return std::nullopt;
  std::int64_t bytes;
  if (__builtin_mul_overflow(elems / info.block_elems, info.block_bytes, &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

float F16ToF32(std::uint16_t half) {
  std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  std::uint32_t exponent = (half >> 10) & 0x1fu;
  std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa · 2^-24, exact
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) {
    std::uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (mantissa << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::uint16_t F32ToF16(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t sign = (bits >> 16) & 0x8000u;
  std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x47800000u) {  // 2^16 and above
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24
    half = static_cast<std::uint32_t>(std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24f));
  } else {  // a carry out of the mantissa rightly raises the exponent, at the top to infinity
    half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

float BF16ToF32(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

std::uint16_t F32ToBF16(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  }
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace tandem::formats
