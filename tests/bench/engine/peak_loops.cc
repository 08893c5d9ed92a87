#include "tests/bench/engine/peak_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "common/base/cpu_features.h"

namespace tandem::bench {
namespace {

#if defined(__x86_64__)

constexpr int kChains = 16;  // enough for two units of a latency of five

// The empty statements take the chains out of the compiler's sight: it may neither drop nor merge
// them.

__attribute__((target("avx2,fma"))) void FmaAvx2(std::int64_t iterations) {
  __m256 sum[12] = {};
  const __m256 a = _mm256_set1_ps(0.5f);
  const __m256 b = _mm256_set1_ps(0.25f);
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (auto& s : sum) {
      s = _mm256_fmadd_ps(a, b, s);
      asm volatile("" : "+x"(s));
    }
  }
}

__attribute__((target("avx512f"))) void FmaAvx512(std::int64_t iterations) {
  __m512 sum[kChains] = {};
  const __m512 a = _mm512_set1_ps(0.5f);
  const __m512 b = _mm512_set1_ps(0.25f);
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (auto& s : sum) {
      s = _mm512_fmadd_ps(a, b, s);
      asm volatile("" : "+v"(s));
    }
  }
}

__attribute__((target("avx512f,avx512vnni"))) void Vnni(std::int64_t iterations) {
  __m512i sum[kChains] = {};
  const __m512i a = _mm512_set1_epi8(1);
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (auto& s : sum) {
      s = _mm512_dpbusd_epi32(s, a, a);
      asm volatile("" : "+v"(s));
    }
  }
}

__attribute__((target("avx512f,avx512bf16"))) void Bf16(std::int64_t iterations) {
  __m512 sum[kChains] = {};
  const __m512bh a = {};
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (auto& s : sum) {
      s = _mm512_dpbf16_ps(s, a, a);
      asm volatile("" : "+v"(s));
    }
  }
}

struct TileShapes {  // what ldtilecfg reads
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// In memory for good: GCC 12 believes that loading a configuration reads eight bytes of it.
constexpr TileShapes kShapes;

// Numbers of either type, none of them zero: on zeros a Xeon runs at a higher clock, 1.26 times.
struct alignas(64) Operand {
  std::uint16_t numbers[512];
  constexpr Operand() : numbers() {
    for (unsigned i = 0; i < 512; ++i) numbers[i] = (i * 37 % 128 + 0x3f01) | i % 3 / 2 << 15;
  }
};
constexpr Operand kOperand;

__attribute__((target("amx-tile"))) void LoadOperands() {
  _tile_loadconfig(&kShapes);
  _tile_loadd(4, &kOperand, 64);
  _tile_loadd(5, &kOperand, 64);
  _tile_loadd(6, &kOperand, 64);
  _tile_loadd(7, &kOperand, 64);
}

// Tiles 0–3 add, 4 and 5 times 6 and 7: a block of 32 by 32.
__attribute__((target("amx-tile,amx-int8"))) void AmxInt8(std::int64_t iterations) {
  LoadOperands();
  for (std::int64_t i = 0; i < iterations; ++i) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
}

__attribute__((target("amx-tile,amx-bf16"))) void AmxBf16(std::int64_t iterations) {
  LoadOperands();
  for (std::int64_t i = 0; i < iterations; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

#endif

}  // namespace

std::vector<PeakLoop> PeakLoops() {
  std::vector<PeakLoop> loops;
#if defined(__x86_64__)
  const CpuFeatures features = DetectCpuFeatures();
  if (features.avx2) loops.push_back({"f32 avx2", 12 * 8 * 2, &FmaAvx2});
  if (features.avx512) loops.push_back({"f32 avx512", kChains * 16 * 2, &FmaAvx512});
  if (features.avx512_bf16) loops.push_back({"bf16 avx512", kChains * 32 * 2, &Bf16});
  if (features.avx512_vnni) loops.push_back({"int8 vnni", kChains * 64 * 2, &Vnni});
  if (features.amx) {
    loops.push_back({"bf16 amx", 4 * 16 * 16 * 32 * 2, &AmxBf16});
    loops.push_back({"int8 amx", 4 * 16 * 16 * 64 * 2, &AmxInt8});
  }
#endif
  return loops;
}

}  // namespace tandem::bench
