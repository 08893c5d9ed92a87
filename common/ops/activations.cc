#include "common/ops/activations.h"

#include "common/base/check.h"

namespace tandem::ops {

namespace {

// Rows that a bf16 product reads, past the last ones too.
constexpr std::int64_t kWholeRows = 2 * kActivationRows;

std::int64_t BlockBytes(NumericsClass numerics) {
  switch (ImageOf(numerics)) {
    case ActivationImage::kNone:
      return 0;
    case ActivationImage::kInt8:
      return static_cast<std::int64_t>(sizeof(ActivationBlock));
    case ActivationImage::kBf16:
      break;
  }
  return kActivationRows * kActivationGroup * 2;
}

}  // namespace

StatusOr<Activations> Activations::Create(NumericsClass numerics, std::int64_t max_rows,
                                          std::int64_t max_k) {
  constexpr std::int64_t kMax = std::int64_t{1} << 24;
  if (max_rows < 1 || max_rows > kMax || max_k < 1 || max_k > kMax) {
    return InvalidArgument("activations of {} rows by {} elements: each must be in 1..{}", max_rows,
                           max_k, kMax);
  }
  Activations result;
  result.max_rows_ = max_rows;
  result.max_groups_ = RoundUp(max_k, kActivationGroup) / kActivationGroup;
  result.block_bytes_ = BlockBytes(numerics);
  result.turns_ = ImageOf(numerics) == ActivationImage::kBf16;
  const std::int64_t groups = max_rows * result.max_groups_;
  TANDEM_ASSIGN_OR_RETURN(result.x_, AlignedBuffer::Allocate(groups * kActivationGroup * 4));
  if (result.block_bytes_ == 0) return result;
  const std::int64_t row_blocks = RoundUp(max_rows, kWholeRows) / kActivationRows;
  TANDEM_ASSIGN_OR_RETURN(result.blocks_, AlignedBuffer::Allocate(row_blocks * result.max_groups_ *
                                                                  result.block_bytes_));
  return result;
}

ActivationView Activations::View(std::int64_t rows, std::int64_t k) const {
  const std::int64_t groups = RoundUp(k, kActivationGroup) / kActivationGroup;
  TANDEM_CHECK(rows >= 0 && rows <= max_rows_ && k >= 1 && groups <= max_groups_);
  ActivationView view;
  view.x = x_.As<float>();
  view.rows = rows;
  view.k = k;
  view.groups = groups;
  view.block_bytes = block_bytes_;
  if (block_bytes_ > 0) view.blocks = blocks_.data();
  if (turns_ && AreTurned(rows)) view.unit = kActivationRows;
  return view;
}

void PrepareRow(const OpsContext& context, const ActivationView& view, std::int64_t row) {
  if (context.kernels().image_row == nullptr) return;
  context.kernels().image_row(view.row(row), view.k, view.blocks_of(row), row % kActivationRows,
                              view.rows);
}

void Prepare(const OpsContext& context, const ActivationView& view, Range rows) {
  for (std::int64_t row = rows.begin; row < rows.end; ++row) PrepareRow(context, view, row);
}

}  // namespace tandem::ops
