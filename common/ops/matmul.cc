#include "common/ops/matmul.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::ops {
namespace {

constexpr std::int64_t kUnitsPerThread = 8;  // so that threads finish together
// Rows of a part, or more, where threads want more units: unpacked weights must pay.
constexpr std::int64_t kRowsPerPart = 256;
// Of rows in a second-level cache of 2 MiB. Each part reads and unpacks all weights: measured with
// weights that the third level holds.
constexpr std::int64_t kNearBytes = 1280 << 10;
constexpr std::int64_t kFewestRows = 128;  // of a part that is to have so few bytes

// The panels of one product as a kernel asks for them. The units that threads divide are those of
// one part of the rows after another: so each begins with rows of its own.
class PanelClaims {
 public:
  PanelClaims(Share share, std::int64_t panels, std::int64_t unit, std::int64_t parts)
      : units_((panels + unit - 1) / unit),
        claims_(share, units_ * parts),
        panels_(panels),
        unit_(unit) {}

  // The part that the next panels are of; false when none are left.
  bool NextPart(std::int64_t* part) {
    if (mine_.begin == mine_.end && !claims_.Next(&mine_)) return false;
    part_ = *part = mine_.begin / units_;
    return true;
  }
  // Of that part.
  static std::int32_t Next(void* self, std::int64_t* begin, std::int64_t* end) {
    return static_cast<PanelClaims*>(self)->NextPanels(begin, end) ? 1 : 0;
  }

 private:
  bool NextPanels(std::int64_t* begin, std::int64_t* end) {
    if (mine_.begin == mine_.end && !claims_.Next(&mine_)) return false;
    const std::int64_t first = part_ * units_;
    const std::int64_t last = std::min(mine_.end, first + units_);
    if (mine_.begin < first || mine_.begin >= last) return false;
    *begin = (mine_.begin - first) * unit_;
    *end = std::min((last - first) * unit_, panels_);
    mine_.begin = last;
    return true;
  }

  std::int64_t units_;  // of a part
  Claims claims_;
  std::int64_t panels_;
  std::int64_t unit_;
  Range mine_{0, 0};
  std::int64_t part_ = 0;
};

// Bytes of what a product reads of one row.
std::int64_t RowBytes(const ActivationView& x) {
  return x.blocks != nullptr ? x.groups * x.block_bytes / kActivationRows
                             : x.k * static_cast<std::int64_t>(sizeof(float));
}

// Rows are divided as well, into so many parts, where they are too many for a call or for the
// nearer caches, through which all of a part pass for every few columns, or columns too few to go
// round. No part is so small that a class would keep the rows of an image otherwise.
std::int64_t RowParts(const ActivationView& x, std::int64_t units, int threads) {
  std::int64_t parts = (x.rows + kTileMatmulRows - 1) / kTileMatmulRows;
  const auto divide_while = [&](std::int64_t rows, auto&& wanted) {
    while (x.rows >= 2 * parts * rows && wanted()) parts *= 2;
  };
  divide_while(kFewestRows, [&] { return x.rows / parts * RowBytes(x) > kNearBytes; });
  divide_while(kRowsPerPart,
               [&] { return threads > 1 && units * parts < kUnitsPerThread * threads; });
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
  const std::int64_t parts = RowParts(x, panels / unit, share.count());
  const auto begin = [&](std::int64_t part) {
    return std::min(x.rows, RoundUp(x.rows * part / parts, 2 * kActivationRows));
  };
  PanelClaims claims(share, panels, unit, parts);
  for (std::int64_t part; claims.NextPart(&part);) {
    const std::int64_t row = begin(part);
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
