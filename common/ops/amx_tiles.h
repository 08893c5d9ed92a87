// AMX tiles as functions: eight registers, each 16 rows of 64 bytes. Included by sources built for
// AMX; internal linkage. Loads and stores are ordered with the compiler's own; GCC 12's intrinsics
// tell it neither what a load reads nor that a configuration is longer than eight bytes.
#pragma once

#include <stdint.h>

namespace tandem::ops {
namespace {

constexpr int64_t kTileSide = 16;     // rows; 32-bit columns
constexpr int64_t kTileBytes = 1024;  // row by row

// Calls fn.operator()<0>() … fn.operator()<kCount - 1>(): tiles are numbered at compile time.
template <int kCount, typename Fn>
[[gnu::always_inline]] static inline void Unrolled(Fn&& fn) {
  if constexpr (kCount > 0) {
    Unrolled<kCount - 1>(fn);
    fn.template operator()<kCount - 1>();
  }
}

// Rows of each tile, and the bytes of a row.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};

  void SetTile(int tile, int height, int row_bytes = 64) {
    bytes[tile] = static_cast<uint16_t>(row_bytes);
    rows[tile] = static_cast<uint8_t>(height);
  }
};
// The calling thread's, until ReleaseTiles().
static inline void ConfigureTiles(const TileShapes& shapes) {
  asm volatile("ldtilecfg %0" ::"m"(shapes));
}
static inline void ReleaseTiles() { asm volatile("tilerelease" ::: "memory"); }

template <int kTile>
static inline void ZeroTile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
template <int kTile>
static inline void LoadTile(const void* p, int64_t row_stride) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(kTile), "r"(p), "r"(row_stride) : "memory");
}
// The same for what is not about to be read again: it leaves the nearest cache to others.
template <int kTile>
static inline void LoadTileOnce(const void* p, int64_t row_stride) {
  asm volatile("tileloaddt1 (%1,%2,1), %%tmm%c0" ::"i"(kTile), "r"(p), "r"(row_stride) : "memory");
}
template <int kTile>
static inline void StoreTile(void* p, int64_t row_stride) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(kTile), "r"(p), "r"(row_stride) : "memory");
}
// kSum [m, n] f32 += kA [m, 16 pairs] . kB [16 pairs, n] of bf16. What is added to an element, and
// in which order, depends on its own row of kA and column of kB alone; denormals count as zero.
template <int kSum, int kA, int kB>
static inline void AddProductBf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}

}  // namespace
}  // namespace tandem::ops
