// The reference: f32 weights, activations and KV in plain C++, built for the baseline processor.
// Sums over an inner size use 16 interleaved partial sums and one fixed tree, so that a compiler
// may vectorise them without changing a bit.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/ops/kernels.h"

namespace tandem::ops {
namespace {

constexpr int64_t kLanes = 16;

float TreeSum(const float* lanes) {
  float sum[kLanes];
  memcpy(sum, lanes, sizeof sum);
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t i = 0; i < width; ++i) sum[i] += sum[i + width];
  }
  return sum[0];
}

float Dot(const float* a, const float* b, int64_t n) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  for (int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += a[i] * b[i];
  return TreeSum(lanes);
}

// exp by 2^n * p(r), |r| <= ln 2 / 2; Cephes' degree-5 polynomial. 0 below -87.
float Exp(float x) {
  if (!(x >= -87.0f)) return 0.0f;
  if (x > 88.0f) x = 88.0f;
  const float n = nearbyintf(x * 1.44269504f);
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23;
  float power;
  memcpy(&power, &bits, sizeof power);
  return p * power;
}

void RmsNorm(const float* x, const float* weight, float eps, int64_t n, float* y) {
  const float scale = 1.0f / sqrtf(Dot(x, x, n) / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

void RotateHalves(const float* cos, const float* sin, int64_t pairs, float* x) {
  for (int64_t i = 0; i < pairs; ++i) {
    const float a = x[i];
    const float b = x[i + pairs];
    x[i] = a * cos[i] - b * sin[i];
    x[i + pairs] = a * sin[i] + b * cos[i];
  }
}

void ToBf16(const float* x, int64_t n, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const uint32_t rounded = nan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
    out[i] = static_cast<uint16_t>(rounded >> 16);
  }
}

int32_t Largest(const float* x, int64_t n, float* max) {
  int32_t nan = 0;
  *max = -INFINITY;
  for (int64_t i = 0; i < n; ++i) {
    nan |= x[i] != x[i];
    *max = x[i] > *max ? x[i] : *max;
  }
  return nan;
}

void Swiglu(const float* gate, const float* up, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = gate[i] / (1.0f + Exp(-gate[i])) * up[i];
}

void Matmul(const MatmulArgs* args) {
  const PackedView& w = *args->weights;
  const float* data = reinterpret_cast<const float*>(w.data);
  for (int64_t begin, end; args->claim(args->claims, &begin, &end);) {
    const int64_t past = end * kPanelColumns < w.n ? end * kPanelColumns : w.n;
    for (int64_t column = begin * kPanelColumns; column < past; ++column) {
      for (int64_t row = 0; row < args->rows; ++row) {
        float sum = Dot(args->x + row * args->x_stride, data + column * w.k, w.k);
        if (args->bias != nullptr) sum += args->bias[column];
        float* y = args->y + row * args->y_stride + column;
        *y = args->accumulate != 0 ? *y + sum : sum;
      }
    }
  }
}

const float* Key(const AttendArgs& args, int64_t position) {
  const int64_t block = args.block_table[position / args.block_size];
  return reinterpret_cast<const float*>(args.kv + block * args.block_bytes) +
         position % args.block_size * args.head_dim;
}

void AttendRow(const AttendArgs& args, int64_t row) {
  const int64_t first = FirstKeyOf(args, row), end = EndKeyOf(args, row);
  const int64_t values = args.block_size * args.head_dim;  // from a key to its value
  float* out = args.out[row];
  float scores[kKeyChunk];
  float running_max = -INFINITY;
  float running_sum = 0;
  for (int64_t i = 0; i < args.head_dim; ++i) out[i] = 0;
  for (int64_t chunk = first / kKeyChunk * kKeyChunk; chunk < end; chunk += kKeyChunk) {
    const int64_t chunk_begin = first > chunk ? first : chunk;
    const int64_t chunk_end = end < chunk + kKeyChunk ? end : chunk + kKeyChunk;
    float max = running_max;
    for (int64_t key = chunk_begin; key < chunk_end; ++key) {
      const float score = Dot(args.q[row], Key(args, key), args.head_dim) * args.scale;
      scores[key - chunk] = score;
      max = score > max ? score : max;
    }
    const float rescale = Exp(running_max - max);
    running_max = max;
    running_sum *= rescale;
    for (int64_t i = 0; i < args.head_dim; ++i) out[i] *= rescale;
    for (int64_t key = chunk_begin; key < chunk_end; ++key) {
      const float weight = Exp(scores[key - chunk] - max);
      const float* value = Key(args, key) + values;
      running_sum += weight;
      for (int64_t i = 0; i < args.head_dim; ++i) out[i] += weight * value[i];
    }
  }
  for (int64_t i = 0; i < args.head_dim; ++i) out[i] /= running_sum;
  if (args.base != nullptr) {
    args.base[row] = running_max;
    args.total[row] = running_sum;
  }
}

void AttendOne(const AttendArgs* args) {
  for (int64_t row = 0; row < args->rows; ++row) AttendRow(*args, row);
}

void Attend(const AttendArgs* calls, int64_t count, const AttendArgs*) {
  for (int64_t i = 0; i < count; ++i) AttendOne(calls + i);
}

double ExpSum(const float* x, int64_t n, float max, float* out) {
  constexpr int64_t kSlice = 1024;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kSlice) {
    const int64_t end = begin + kSlice < n ? begin + kSlice : n;
    float lanes[kLanes] = {};
    for (int64_t i = begin; i < end; ++i) {
      out[i] = Exp(x[i] - max);
      lanes[(i - begin) % kLanes] += out[i];
    }
    total += TreeSum(lanes);
  }
  return total;
}

}  // namespace

const Kernels kScalarKernels = {
    .rms_norm = RmsNorm,
    .rotate_halves = RotateHalves,
    .to_bf16 = ToBf16,
    .swiglu = Swiglu,
    .matmul = Matmul,
    .attend = Attend,
    .largest = Largest,
    .exp_sum = ExpSum,
    .attend_rows = kAttendRows,
    .base_unit = 1.0f,
    .panel_unit = 1,
};

}  // namespace tandem::ops
