#include "common/ops/matmul.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::ops {
namespace {

// Panels that a kernel keeps in flight when rows are few; a thread's part is whole multiples.
constexpr std::int64_t kPanelsPerUnit = 4;
constexpr std::int64_t kRowsPerUnit = 2 * kActivationRows;

struct Part {
  Range panels;
  Range rows;
};

// Columns first; rows as well when there are too few columns to go round.
Part PartOf(std::int64_t panels, std::int64_t rows, Share share) {
  const std::int64_t unit = panels >= kPanelsPerUnit * share.count * 2 ? kPanelsPerUnit : 2;
  const std::int64_t units = (panels + unit - 1) / unit;
  std::int64_t row_parts = 1;
  while (row_parts * 2 <= share.count && share.count % (row_parts * 2) == 0 &&
         units < 3 * share.count / row_parts && rows >= row_parts * 2 * kRowsPerUnit) {
    row_parts *= 2;
  }
  const int columns_count = static_cast<int>(share.count / row_parts);
  const Share columns{share.index % columns_count, columns_count};
  const Share row_share{share.index / columns_count, static_cast<int>(row_parts)};
  return {columns.Of(panels, unit), row_share.Of(rows, row_parts == 1 ? 1 : kRowsPerUnit)};
}

}  // namespace

void Matmul(const OpsContext& context, const PackedMatrix& weights, const ActivationView& x,
            const MatmulOutput& output, Share share) {
  const PackedView& view = weights.view();
  TANDEM_CHECK(x.k == view.k);
  const Part part = PartOf(RoundUp(view.n, kPanelColumns) / kPanelColumns, x.rows, share);
  if (part.panels.begin >= part.panels.end || part.rows.begin >= part.rows.end) return;
  const std::int64_t y_stride = output.y_stride == 0 ? view.n : output.y_stride;
  MatmulArgs args{};
  args.weights = &view;
  args.x = x.row(part.rows.begin);
  args.x_stride = x.k;
  if (x.blocks != nullptr) args.xq = x.blocks_of(part.rows.begin);
  args.xq_groups = x.groups;
  args.rows = part.rows.end - part.rows.begin;
  args.y = output.y + part.rows.begin * y_stride;
  args.y_stride = y_stride;
  args.bias = output.bias;
  args.accumulate = output.accumulate ? 1 : 0;
  args.panel_begin = part.panels.begin;
  args.panel_end = part.panels.end;
  args.scratch = context.scratch(share.index);
  context.kernels().matmul(&args);
}

}  // namespace tandem::ops
