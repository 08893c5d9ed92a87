#include "common/ops/matmul.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::ops {
namespace {

constexpr std::int64_t kUnitsPerThread = 8;  // so that threads finish together
constexpr std::int64_t kRowsPerPart = 256;   // or more: unpacked weights must pay

// The panels of one product as a kernel asks for them.
class PanelClaims {
 public:
  PanelClaims(Share share, std::int64_t panels, std::int64_t unit)
      : claims_(share, (panels + unit - 1) / unit), panels_(panels), unit_(unit) {}

  static std::int32_t Next(void* self, std::int64_t* begin, std::int64_t* end) {
    PanelClaims& claims = *static_cast<PanelClaims*>(self);
    Range units{};
    if (!claims.claims_.Next(&units)) return 0;
    *begin = units.begin * claims.unit_;
    *end = std::min(units.end * claims.unit_, claims.panels_);
    return 1;
  }

 private:
  Claims claims_;
  std::int64_t panels_;
  std::int64_t unit_;
};

// Rows are divided as well, into so many parts, where columns are too few to go round or rows too
// many for a call. No part is so small that a class would keep the rows of an image otherwise.
std::int64_t RowParts(std::int64_t units, std::int64_t rows, int threads) {
  std::int64_t parts = (rows + kTileMatmulRows - 1) / kTileMatmulRows;
  while (threads > 1 && units * parts < kUnitsPerThread * threads &&
         rows >= 2 * parts * kRowsPerPart) {
    parts *= 2;
  }
  return parts;
}

// Calls fn(args, row) for each part of x's rows, from `row` on, with what its kernel call needs
// but for the results.
template <typename Fn>
void ForEachPart(const OpsContext& context, const PackedMatrix& weights, const ActivationView& x,
                 Share share, Fn&& fn) {
  const PackedView& view = weights.view();
  TANDEM_CHECK(x.k == view.k);
  const std::int64_t panels = RoundUp(view.n, kPanelColumns) / kPanelColumns;
  const std::int64_t unit = context.kernels().panel_unit;
  const std::int64_t parts = RowParts(panels / unit, x.rows, share.count());
  const auto begin = [&](std::int64_t part) {
    return std::min(x.rows, RoundUp(x.rows * part / parts, 2 * kActivationRows));
  };
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t row = begin(part);
    PanelClaims claims(share, panels, unit);
    MatmulArgs args{};
    args.weights = &view;
    args.x = x.row(row);
    args.x_stride = x.k;
    if (x.blocks != nullptr) args.xq = x.blocks_of(row);
    args.xq_groups = x.groups;
    args.rows = begin(part + 1) - row;
    args.claim = &PanelClaims::Next;
    args.claims = &claims;
    args.scratch = context.scratch(share.index);
    fn(args, row);
  }
}

bool IsTiles(const PackedView& view) {
  return view.layout == WeightLayout::kTileNibble || view.layout == WeightLayout::kTileByte ||
         view.layout == WeightLayout::kTileBf16;
}

}  // namespace

void Matmul(const OpsContext& context, const PackedMatrix& weights, const ActivationView& x,
            const MatmulOutput& output, Share share) {
  const std::int64_t y_stride = output.y_stride == 0 ? weights.n() : output.y_stride;
  ForEachPart(context, weights, x, share, [&](MatmulArgs& args, std::int64_t row) {
    args.y = output.y + row * y_stride;
    args.y_stride = y_stride;
    args.bias = output.bias;
    args.accumulate = output.accumulate ? 1 : 0;
    context.kernels().matmul(&args);
  });
}

bool HasGatedMatmul(const OpsContext& context, const PackedMatrix& gate, const PackedMatrix& up,
                    const PackedMatrix& next) {
  const PackedView& a = gate.view();
  const PackedView& b = up.view();
  return context.kernels().gated_matmul != nullptr && IsTiles(a) && IsTiles(next.view()) &&
         a.layout == b.layout && a.group == b.group && a.has_min == b.has_min &&
         a.half_factors == b.half_factors;
}

void GatedMatmul(const OpsContext& context, const GatedWeights& weights, const ActivationView& x,
                 const ActivationView& out, Share share) {
  TANDEM_CHECK(out.rows == x.rows && out.k == weights.gate.n() && out.k == weights.up.n());
  TANDEM_CHECK(out.blocks != x.blocks && weights.up.k() == x.k);
  ForEachPart(context, weights.gate, x, share, [&](MatmulArgs& args, std::int64_t row) {
    args.bias = weights.gate_bias;
    const GatedArgs gated{args, &weights.up.view(), weights.up_bias, out.blocks_of(row),
                          out.groups};
    context.kernels().gated_matmul(&gated);
  });
}

}  // namespace tandem::ops
