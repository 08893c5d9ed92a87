// Stores floats in any type that weight files have: round to nearest, no search for better scales.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/formats/dtype.h"

namespace tandem::testing {

// Requires: values.size() is whole blocks of `dtype`, all finite.
std::vector<std::byte> Quantize(formats::DType dtype, std::span<const float> values);

// The values that `bytes` stand for. Requires: whole blocks.
std::vector<float> Dequantized(formats::DType dtype, std::span<const std::byte> bytes);

// `wanted` where rows of `cols` elements are whole blocks of it, else what llama.cpp's quantiser
// takes instead: Q4_K → Q5_0, Q5_K → Q5_1, Q6_K → Q8_0, and F16 where 32 does not divide `cols`.
formats::DType DTypeForRows(formats::DType wanted, std::int64_t cols);

}  // namespace tandem::testing
