// Row operators over Vec: norm, gate, exponentials. Included after a vector_*.h, by sources of one
// instruction set; internal linkage.
#pragma once

#include <stdint.h>

namespace tandem::ops {
namespace {

// exp by 2^n * p(r), |r| <= ln 2 / 2; Cephes' degree-5 polynomial. 0 below -87 and for NaN.
static inline Vec Exp(Vec x) {
  const Vec clamped = Min(x, Set(88.0f));
  const Vec n = Round(Mul(clamped, Set(1.44269504f)));
  const Vec r = NegFma(n, Set(-2.12194440e-4f), NegFma(n, Set(0.693359375f), clamped));
  Vec p = Set(1.9875691500e-4f);
  p = Fma(p, r, Set(1.3981999507e-3f));
  p = Fma(p, r, Set(8.3334519073e-3f));
  p = Fma(p, r, Set(4.1665795894e-2f));
  p = Fma(p, r, Set(1.6666665459e-1f));
  p = Fma(p, r, Set(5.0000001201e-1f));
  p = Add(Fma(p, Mul(r, r), r), Set(1.0f));
  return ZeroUnless(x, Set(-87.0f), Mul(p, PowerOfTwo(n)));
}

static void RmsNorm(const float* x, const float* weight, float eps, int64_t n, float* y) {
  Vec squares = Zero();
  const int64_t whole = n / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    const Vec v = Load(x + i);
    squares = Fma(v, v, squares);
  }
  if (whole < n) {
    const Vec v = LoadPart(x + whole, n - whole);
    squares = Fma(v, v, squares);
  }
  const Vec mean = Div(Set(ReduceAdd(squares)), Set(static_cast<float>(n)));
  const Vec scale = Div(Set(1.0f), Sqrt(Add(mean, Set(eps))));
  for (int64_t i = 0; i < whole; i += kLanes) {
    Store(y + i, Mul(Mul(Load(x + i), scale), Load(weight + i)));
  }
  if (whole < n) {
    const int64_t rest = n - whole;
    const Vec v = Mul(Mul(LoadPart(x + whole, rest), scale), LoadPart(weight + whole, rest));
    StorePart(y + whole, v, rest);
  }
}

static void RotateHalves(const float* cos, const float* sin, int64_t pairs, float* x) {
  for (int64_t i = 0; i < pairs; i += kLanes) {
    const int64_t count = pairs - i < kLanes ? pairs - i : kLanes;
    const bool whole = count == kLanes;
    float* low = x + i;
    float* high = x + pairs + i;
    const Vec a = whole ? Load(low) : LoadPart(low, count);
    const Vec b = whole ? Load(high) : LoadPart(high, count);
    const Vec c = whole ? Load(cos + i) : LoadPart(cos + i, count);
    const Vec s = whole ? Load(sin + i) : LoadPart(sin + i, count);
    const Vec turned_low = Sub(Mul(a, c), Mul(b, s));
    const Vec turned_high = Add(Mul(a, s), Mul(b, c));
    if (whole) {
      Store(low, turned_low);
      Store(high, turned_high);
    } else {
      StorePart(low, turned_low, count);
      StorePart(high, turned_high, count);
    }
  }
}

static void ToBf16(const float* x, int64_t n, uint16_t* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) StoreBf16(out + i, Load(x + i));
  if (i < n) StoreBf16(out + i, LoadPart(x + i, n - i), n - i);
}

static inline Vec SiluTimes(Vec gate, Vec up) {
  return Mul(Div(gate, Add(Set(1.0f), Exp(Sub(Zero(), gate)))), up);
}

// kSilu: SiluTimes, or a class's own.
template <Vec (*kSilu)(Vec gate, Vec up)>
static void Swiglu(const float* gate, const float* up, int64_t n, float* y) {
  const int64_t whole = n / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) Store(y + i, kSilu(Load(gate + i), Load(up + i)));
  if (whole < n) {
    const int64_t rest = n - whole;
    StorePart(y + whole, kSilu(LoadPart(gate + whole, rest), LoadPart(up + whole, rest)), rest);
  }
}

static int32_t Largest(const float* x, int64_t n, float* max) {
  constexpr int64_t kVecs = 4;
  Vec largest[kVecs];
  for (Vec& v : largest) v = Set(-__builtin_inff());
  int32_t nan = 0;
  int64_t i = 0;
  for (; i + kVecs * kLanes <= n; i += kVecs * kLanes) {
    for (int64_t j = 0; j < kVecs; ++j) {
      const Vec v = Load(x + i + j * kLanes);
      nan |= NanLanes(v);
      largest[j] = Max(v, largest[j]);  // the second where one is NaN
    }
  }
  for (Vec& v : largest) largest[0] = Max(largest[0], v);
  float rest = ReduceMax(largest[0]);
  for (; i < n; ++i) {
    nan |= x[i] != x[i];
    rest = x[i] > rest ? x[i] : rest;
  }
  *max = rest;
  return nan != 0;
}

static double ExpSum(const float* x, int64_t n, float max, float* out) {
  constexpr int64_t kSlice = 1024;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kSlice) {
    const int64_t end = begin + kSlice < n ? begin + kSlice : n;
    const int64_t whole = begin + (end - begin) / kLanes * kLanes;
    Vec sum = Zero();
    for (int64_t i = begin; i < whole; i += kLanes) {
      const Vec v = Exp(Sub(Load(x + i), Set(max)));
      Store(out + i, v);
      sum = Add(sum, v);
    }
    if (whole < end) {
      const int64_t rest = end - whole;
      const Vec v = KeepFirst(Exp(Sub(LoadPart(x + whole, rest), Set(max))), rest);
      StorePart(out + whole, v, rest);
      sum = Add(sum, v);
    }
    total += static_cast<double>(ReduceAdd(sum));
  }
  return total;
}

}  // namespace
}  // namespace tandem::ops
