// Vectors of 16 bytes, as far as packing needs them, in the compiler's own terms: the same code for
// every processor. Internal to ops; for sources that are built for all processors only.
#pragma once

#include <cstdint>
#include <cstring>

namespace tandem::ops {

using U8x16 = std::uint8_t __attribute__((vector_size(16)));
using U16x8 = std::uint16_t __attribute__((vector_size(16)));
using U32x4 = std::uint32_t __attribute__((vector_size(16)));
using U64x2 = std::uint64_t __attribute__((vector_size(16)));

template <typename Vector>
Vector LoadVector(const void* p) {
  Vector vector;
  std::memcpy(&vector, p, sizeof vector);
  return vector;
}

template <typename Vector>
void StoreVector(Vector vector, void* p) {
  std::memcpy(p, &vector, sizeof vector);
}

// a0 b0 a1 b1 …, of the first and of the second half of both.
inline U8x16 ZipLow(U8x16 a, U8x16 b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
inline U8x16 ZipHigh(U8x16 a, U8x16 b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}
inline U16x8 ZipLow(U16x8 a, U16x8 b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
inline U16x8 ZipHigh(U16x8 a, U16x8 b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
inline U32x4 ZipLow(U32x4 a, U32x4 b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
inline U32x4 ZipHigh(U32x4 a, U32x4 b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }

// Rows of a square become its columns: as many rounds of interleaving rows i and i + half as there
// are bits in an index.
template <typename Vector>
void Transpose(Vector* a) {
  constexpr int kRows = 16 / sizeof(a[0][0]);
  Vector b[kRows];
  for (int done = 1; done < kRows; done *= 2) {
    for (int i = 0; i < kRows / 2; ++i) {
      b[2 * i] = ZipLow(a[i], a[i + kRows / 2]);
      b[2 * i + 1] = ZipHigh(a[i], a[i + kRows / 2]);
    }
    for (int i = 0; i < kRows; ++i) a[i] = b[i];
  }
}

}  // namespace tandem::ops
