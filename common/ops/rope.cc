#include "common/ops/rope.h"

#include <cmath>

#include "common/base/check.h"

namespace tandem::ops {
namespace {

void RotateInterleaved(const float* cos, const float* sin, std::int64_t pairs, float* x) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    x[2 * i] = a * cos[i] - b * sin[i];
    x[2 * i + 1] = a * sin[i] + b * cos[i];
  }
}

struct SinCos {
  double sin;
  double cos;
};

// Taylor series around the nearest multiple of pi/2, in plain double arithmetic: the system's
// functions differ in the last bit between versions and processors. Accurate to about 1e-15 up to
// angles of a million radians.
SinCos SinAndCos(double angle) {
  constexpr double kHalfPiHigh = 0x1.921fb544p+0;  // 33 bits, so that quadrant * high is exact
  constexpr double kHalfPiLow = 0x1.0b4611a626331p-34;
  const double quadrant = std::nearbyint(angle * 0x1.45f306dc9c883p-1);  // 2 / pi
  const double r = (angle - quadrant * kHalfPiHigh) - quadrant * kHalfPiLow;
  double sin_term = r;
  double cos_term = 1;
  double sin = r;
  double cos = 1;
  for (int i = 1; i <= 9; ++i) {
    cos_term *= -r * r / ((2 * i - 1) * (2 * i));
    sin_term *= -r * r / ((2 * i) * (2 * i + 1));
    cos += cos_term;
    sin += sin_term;
  }
  switch (static_cast<std::int64_t>(quadrant) & 3) {
    case 0:
      return {sin, cos};
    case 1:
      return {cos, -sin};
    case 2:
      return {-sin, -cos};
    default:
      return {-cos, sin};
  }
}

}  // namespace

StatusOr<RopeTable> RopeTable::Create(std::span<const double> inv_freq, double attention_factor,
                                      std::int64_t num_positions) {
  constexpr std::int64_t kMaxBytes = std::int64_t{4} << 30;
  const std::int64_t pairs = static_cast<std::int64_t>(inv_freq.size());
  if (pairs < 1 || num_positions < 1 || num_positions > kMaxBytes / (pairs * 8)) {
    return InvalidArgument("RoPE table of {} positions by {} pairs: must be 1 byte to 4 GiB",
                           num_positions, pairs);
  }
  RopeTable table;
  table.num_pairs_ = pairs;
  table.num_positions_ = num_positions;
  TANDEM_ASSIGN_OR_RETURN(table.table_, AlignedBuffer::Allocate(num_positions * pairs * 8));
  float* out = table.table_.As<float>();
  for (std::int64_t position = 0; position < num_positions; ++position, out += 2 * pairs) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(position) * inv_freq[i];
      const SinCos value = SinAndCos(angle);
      out[i] = static_cast<float>(value.cos * attention_factor);
      out[pairs + i] = static_cast<float>(value.sin * attention_factor);
    }
  }
  return table;
}

void Rope(const OpsContext& context, const RopeTable& table, const RopeArgs& args, Range rows) {
  TANDEM_CHECK(args.head_dim >= 2 * table.num_pairs());
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::int64_t position = args.positions[row];
    TANDEM_CHECK(position >= 0 && position < table.num_positions());
    for (std::int64_t head = 0; head < args.heads; ++head) {
      float* x = args.x + row * args.x_stride + head * args.head_dim;
      if (args.pairs == RopePairs::kInterleaved) {
        RotateInterleaved(table.cos(position), table.sin(position), table.num_pairs(), x);
      } else {
        context.kernels().rotate_halves(table.cos(position), table.sin(position), table.num_pairs(),
                                        x);
      }
    }
  }
}

}  // namespace tandem::ops
