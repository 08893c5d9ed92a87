// Weights as files store them, and their exact integer form.
//
// Every quantised type here is scale * q + min over groups of 32 or 16 elements, with q an int8
// and both factors exact in f32; so repacking loses nothing. Layouts: ggml's (GGUF) block types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"

namespace tandem::ops {

// The same names as formats::DType, which this library does not see.
enum class WeightType : std::uint8_t {
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

struct WeightTypeInfo {
  int block_elems;  // 1, 32 or 256
  int block_bytes;
  int group;          // elements that share a scale: 32, 16; 0 for floats
  bool has_min;       // then q >= 0
  bool nibble;        // has_min and q <= 15, or q - 8 of 4 bits
  bool half_factors;  // scale and min are halves in the file
};
const WeightTypeInfo& Info(WeightType type);

// A matrix [n, k] as a file holds it: n rows of whole blocks, one after another. Borrowed.
struct WeightSource {
  WeightType type = WeightType::kF32;
  std::int64_t n = 0;  // output columns (rows of the file)
  std::int64_t k = 0;  // inner size
  std::span<const std::byte> bytes;
  // Where not 0, rows come in runs of this many (a head's) of which the file interleaves the
  // halves: row i of the first half lies at 2 i, row i of the second at 2 i + 1. Even; divides n.
  std::int64_t interleaved = 0;

  std::int64_t row_bytes() const { return k / Info(type).block_elems * Info(type).block_bytes; }
  // Errors: InvalidArgument for sizes below 1, k that is not whole blocks, bytes that are not
  // exactly n rows, or runs that n does not consist of.
  Status Validate() const;
  // Row `index`'s bytes. Requires: valid.
  const std::byte* row(std::int64_t index) const {
    if (interleaved != 0) {
      const std::int64_t in_run = index % interleaved;
      const std::int64_t half = interleaved / 2;
      index += 2 * (in_run % half) + in_run / half - in_run;
    }
    return bytes.data() + index * row_bytes();
  }
};

// Splits one row of a quantised type: element i is scale[i / group] * q[i] + min[i / group].
// Requires: a quantised type; q has k elements, scale and min k / group. min is 0 if !has_min.
void DecodeRow(WeightType type, const std::byte* row, std::int64_t k, std::int8_t* q, float* scale,
               float* min);
// The integers of that alone.
void DecodeIntegers(WeightType type, const std::byte* row, std::int64_t k, std::int8_t* q);
// One row as f32, of any type.
void DequantizeRow(WeightType type, const std::byte* row, std::int64_t k, float* out);

}  // namespace tandem::ops
