// The element types of weight files: plain floats and GGUF's block-quantised types.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tandem::formats {

enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

// A row is a run of blocks: block_bytes bytes hold block_elems consecutive elements.
struct DTypeInfo {
  DType dtype;
  std::string_view name;  // as GGUF tools write it: "F32", "Q4_K"
  int block_elems;        // 1, 32 or 256
  int block_bytes;
  std::uint32_t gguf_id;  // ggml's number of the type
};

const DTypeInfo& Info(DType dtype);
std::span<const DTypeInfo> AllDTypes();
inline std::string_view Name(DType dtype) { return Info(dtype).name; }

// The type with ggml's number `id`; nothing for one that is not read here.
std::optional<DType> DTypeFromGguf(std::uint32_t id);
// The type that safetensors calls `name` (F32, F16, BF16).
std::optional<DType> DTypeFromSafetensors(std::string_view name);
// ggml's name of type `id` even where it is not read here ("Q2_K"), else "?". For messages.
std::string_view GgufTypeName(std::uint32_t id);

// Bytes of `elems` elements in whole blocks; nothing when they do not fill their last block, are
// negative, or the product overflows.
std::optional<std::int64_t> BytesFor(DType dtype, std::int64_t elems);

// IEEE half and bfloat16. To float is exact; from float rounds to nearest, ties to even, overflow
// to infinity, NaN stays a (quiet) NaN.
float F16ToF32(std::uint16_t half);
std::uint16_t F32ToF16(float value);
float BF16ToF32(std::uint16_t bits);
std::uint16_t F32ToBF16(float value);

}  // namespace tandem::formats
