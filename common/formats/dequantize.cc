#include "common/formats/dequantize.h"

#include <cstdint>
#include <cstring>

namespace tandem::formats {
namespace {

// Layouts: ggml-common.h. Every decoder turns one block at `in` into block_elems floats at `out`.

const std::uint8_t* Bytes(const std::byte* in) { return reinterpret_cast<const std::uint8_t*>(in); }

template <typename T>
T Load(const std::uint8_t* in) {
  T value;
  std::memcpy(&value, in, sizeof(T));
  return value;
}

float Half(const std::uint8_t* in) { return F16ToF32(Load<std::uint16_t>(in)); }

// Nibbles of a 32-element block: byte j holds element j below and element j + 16 above.
int Nibble(const std::uint8_t* nibbles, int element) {
  return element < 16 ? nibbles[element] & 15 : nibbles[element - 16] >> 4;
}

void DecodeQ4_0(const std::uint8_t* in, float* out) {
  const float d = Half(in);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(Nibble(in + 2, j) - 8);
}

void DecodeQ4_1(const std::uint8_t* in, float* out) {
  const float d = Half(in);
  const float m = Half(in + 2);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(Nibble(in + 4, j)) + m;
}

// Five bits: a nibble and bit j of the high word.
int FiveBits(const std::uint8_t* nibbles, std::uint32_t high, int element) {
  return Nibble(nibbles, element) | static_cast<int>((high >> element) & 1u) << 4;
}

void DecodeQ5_0(const std::uint8_t* in, float* out) {
  const float d = Half(in);
  const auto high = Load<std::uint32_t>(in + 2);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(FiveBits(in + 6, high, j) - 16);
}

void DecodeQ5_1(const std::uint8_t* in, float* out) {
  const float d = Half(in);
  const float m = Half(in + 2);
  const auto high = Load<std::uint32_t>(in + 4);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(FiveBits(in + 8, high, j)) + m;
}

void DecodeQ8_0(const std::uint8_t* in, float* out) {
  const float d = Half(in);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(static_cast<std::int8_t>(in[2 + j]));
}

struct ScaleMin {
  int scale;
  int min;
};

// Six-bit scale and min of sub-block `i` (of 8) out of the 12 packed bytes of Q4_K and Q5_K.
ScaleMin UnpackScaleMin(const std::uint8_t* packed, int i) {
  if (i < 4) return {packed[i] & 63, packed[i + 4] & 63};
  return {(packed[i + 4] & 15) | (packed[i - 4] >> 6) << 4, (packed[i + 4] >> 4) | (packed[i] >> 6)
                                                                                       << 4};
}

// Q4_K and Q5_K: eight sub-blocks of 32; bytes 32p… of the nibbles hold sub-block 2p below and 2p +
// 1 above. `high` (Q5_K, else null): bit i of high[l] is the fifth bit of element l of sub-block i.
void DecodeQ45K(const std::uint8_t* in, const std::uint8_t* high, const std::uint8_t* nibbles,
                float* out) {
  const float d = Half(in);
  const float dmin = Half(in + 2);
  for (int i = 0; i < 8; ++i) {
    const ScaleMin packed = UnpackScaleMin(in + 4, i);
    const float scale = d * static_cast<float>(packed.scale);
    const float min = dmin * static_cast<float>(packed.min);
    const std::uint8_t* pair = nibbles + 32 * (i / 2);
    for (int l = 0; l < 32; ++l) {
      int q = i % 2 == 0 ? pair[l] & 15 : pair[l] >> 4;
      if (high != nullptr) q += ((high[l] >> i) & 1) << 4;
      out[32 * i + l] = scale * static_cast<float>(q) - min;
    }
  }
}

void DecodeQ4_K(const std::uint8_t* in, float* out) { DecodeQ45K(in, nullptr, in + 16, out); }
void DecodeQ5_K(const std::uint8_t* in, float* out) { DecodeQ45K(in, in + 16, in + 48, out); }

// Two halves of 128, each of 64 low bytes, 32 high bytes and 8 scales.
void DecodeQ6_K(const std::uint8_t* in, float* out) {
  const float d = Half(in + 208);
  for (int half = 0; half < 2; ++half) {
    const std::uint8_t* low = in + 64 * half;
    const std::uint8_t* high = in + 128 + 32 * half;
    const std::uint8_t* scales = in + 192 + 8 * half;
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int l = 0; l < 32; ++l) {
        const std::uint8_t byte = low[l + 32 * (quarter % 2)];
        const int bits = (quarter < 2 ? byte & 15 : byte >> 4) | ((high[l] >> 2 * quarter) & 3)
                                                                     << 4;
        const auto scale = static_cast<std::int8_t>(scales[l / 16 + 2 * quarter]);
        out[128 * half + 32 * quarter + l] =
            d * static_cast<float>(scale) * static_cast<float>(bits - 32);
      }
    }
  }
}

void DecodeF32(const std::uint8_t* in, float* out) { *out = Load<float>(in); }
void DecodeF16(const std::uint8_t* in, float* out) { *out = Half(in); }
void DecodeBF16(const std::uint8_t* in, float* out) { *out = BF16ToF32(Load<std::uint16_t>(in)); }

template <void (*decode)(const std::uint8_t*, float*)>
void DecodeAll(const DTypeInfo& info, const std::byte* in, std::span<float> out) {
  const std::uint8_t* at = Bytes(in);
  for (std::size_t done = 0; done < out.size();
       done += static_cast<std::size_t>(info.block_elems)) {
    decode(at, out.data() + done);
    at += info.block_bytes;
  }
}

}  // namespace

Status Dequantize(DType dtype, std::span<const std::byte> bytes, std::span<float> out) {
  const DTypeInfo& info = Info(dtype);
  auto needed = BytesFor(dtype, static_cast<std::int64_t>(out.size()));
  if (!needed || static_cast<std::size_t>(*needed) != bytes.size()) {
    return InvalidArgument(
        "dequantize {}: {} bytes do not hold {} elements ({} bytes a block of {})", info.name,
        bytes.size(), out.size(), info.block_bytes, info.block_elems);
  }
  switch (dtype) {
    case DType::kF32:
      DecodeAll<DecodeF32>(info, bytes.data(), out);
      break;
    case DType::kF16:
      DecodeAll<DecodeF16>(info, bytes.data(), out);
      break;
    case DType::kBF16:
      DecodeAll<DecodeBF16>(info, bytes.data(), out);
      break;
    case DType::kQ4_0:
      DecodeAll<DecodeQ4_0>(info, bytes.data(), out);
      break;
    case DType::kQ4_1:
      DecodeAll<DecodeQ4_1>(info, bytes.data(), out);
      break;
    case DType::kQ5_0:
      DecodeAll<DecodeQ5_0>(info, bytes.data(), out);
      break;
    case DType::kQ5_1:
      DecodeAll<DecodeQ5_1>(info, bytes.data(), out);
      break;
    case DType::kQ8_0:
      DecodeAll<DecodeQ8_0>(info, bytes.data(), out);
      break;
    case DType::kQ4_K:
      DecodeAll<DecodeQ4_K>(info, bytes.data(), out);
      break;
    case DType::kQ5_K:
      DecodeAll<DecodeQ5_K>(info, bytes.data(), out);
      break;
    case DType::kQ6_K:
      DecodeAll<DecodeQ6_K>(info, bytes.data(), out);
      break;
  }
  return OkStatus();
}

}  // namespace tandem::formats
