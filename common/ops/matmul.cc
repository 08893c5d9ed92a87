#include "common/ops/matmul.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::ops {
namespace {

constexpr std::int64_t kUnitsPerThread = 8;  // so that threads finish together
constexpr std::int64_t kRowsPerPart = 256;   // unpacked weights must pay

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

// Where columns are too few to go round, rows are divided as well: into so many parts.
std::int64_t RowParts(std::int64_t units, std::int64_t rows, int threads) {
  std::int64_t parts = 1;
  while (threads > 1 && units * parts < kUnitsPerThread * threads &&
         rows >= 2 * parts * kRowsPerPart) {
    parts *= 2;
  }
  return parts;
}

}  // namespace

void Matmul(const OpsContext& context, const PackedMatrix& weights, const ActivationView& x,
            const MatmulOutput& output, Share share) {
  const PackedView& view = weights.view();
  TANDEM_CHECK(x.k == view.k);
  const std::int64_t panels = RoundUp(view.n, kPanelColumns) / kPanelColumns;
  const std::int64_t unit = context.kernels().panel_unit;
  const std::int64_t y_stride = output.y_stride == 0 ? view.n : output.y_stride;
  const std::int64_t parts = RowParts(panels / unit, x.rows, share.count());
  const std::int64_t step = RoundUp((x.rows + parts - 1) / parts, 2 * kActivationRows);
  for (std::int64_t row = 0; row < x.rows; row += step) {
    PanelClaims claims(share, panels, unit);
    MatmulArgs args{};
    args.weights = &view;
    args.x = x.row(row);
    args.x_stride = x.k;
    if (x.blocks != nullptr) args.xq = x.blocks_of(row);
    args.xq_groups = x.groups;
    args.rows = std::min(step, x.rows - row);
    args.y = output.y + row * y_stride;
    args.y_stride = y_stride;
    args.bias = output.bias;
    args.accumulate = output.accumulate ? 1 : 0;
    args.claim = &PanelClaims::Next;
    args.claims = &claims;
    args.scratch = context.scratch(share.index);
    context.kernels().matmul(&args);
  }
}

}  // namespace tandem::ops
