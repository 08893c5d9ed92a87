// Exponentials to a few of a bf16's last places, for what is rounded to bf16 anyway. Beside tile
// products multiplications run on one port, and a division takes as long as 16 of them. Included
// after vector_avx512.h, by sources built for AMX; internal linkage.
#pragma once

#include <immintrin.h>

namespace tandem::ops {
namespace {

// 2^x as 2^floor(x) times the minimax polynomial (error 8e-5, a fiftieth of a
// bf16's last place) of the rest.
static inline Vec Exp2(Vec x) {
  const Vec rest = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  Vec p = Set(7.70670420e-02f);
  p = Fma(p, rest, Set(2.27644991e-01f));
  p = Fma(p, rest, Set(6.95116786e-01f));
  p = Fma(p, rest, Set(1.0f));
  return _mm512_scalef_ps(p, x);
}

// SiluTimes to 1.5e-4 of its value: gate / (1 + 2^(-log2(e) * gate)) * up. The estimate's last bits
// are the processor's; SelfCheck() refuses the class where they are others.
static inline Vec QuickSiluTimes(Vec gate, Vec up) {
  const Vec below = Add(Exp2(Mul(gate, Set(-1.44269504f))), Set(1.0f));
  return Mul(Mul(gate, _mm512_rcp14_ps(below)), up);
}

}  // namespace
}  // namespace tandem::ops
