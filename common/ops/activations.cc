#include "common/ops/activations.h"

#include "common/base/check.h"

namespace tandem::ops {

QuantizedRow ActivationView::quantized_row(std::int64_t index) const {
  const std::int64_t groups = index * xq_groups;
  return {.q = xq.q + groups * kActivationGroup,
          .low = xq.low == nullptr ? nullptr : xq.low + groups * kActivationGroup,
          .scale = xq.scale + groups,
          .sum = xq.sum + groups,
          .seed = xq.seed + groups,
          .seed16 = xq.seed16 + groups * 2};
}

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
  result.planes_ = ActivationPlanes(numerics);
  const std::int64_t groups = max_rows * result.max_groups_;
  TANDEM_ASSIGN_OR_RETURN(result.x_, AlignedBuffer::Allocate(groups * kActivationGroup * 4));
  if (result.planes_ == 0) return result;
  TANDEM_ASSIGN_OR_RETURN(result.q_, AlignedBuffer::Allocate(groups * kActivationGroup));
  if (result.planes_ == 2) {
    TANDEM_ASSIGN_OR_RETURN(result.low_, AlignedBuffer::Allocate(groups * kActivationGroup));
  }
  TANDEM_ASSIGN_OR_RETURN(result.scale_, AlignedBuffer::Allocate(groups * 4));
  TANDEM_ASSIGN_OR_RETURN(result.sum_, AlignedBuffer::Allocate(groups * 4));
  TANDEM_ASSIGN_OR_RETURN(result.seed_, AlignedBuffer::Allocate(groups * 4));
  TANDEM_ASSIGN_OR_RETURN(result.seed16_, AlignedBuffer::Allocate(groups * 8));
  return result;
}

ActivationView Activations::View(std::int64_t rows, std::int64_t k) const {
  const std::int64_t groups = RoundUp(k, kActivationGroup) / kActivationGroup;
  TANDEM_CHECK(rows >= 0 && rows <= max_rows_ && k >= 1 && groups <= max_groups_);
  ActivationView view;
  view.x = x_.As<float>();
  view.rows = rows;
  view.k = k;
  view.xq_groups = groups;
  if (planes_ > 0) {
    view.xq = {.q = q_.As<std::int8_t>(),
               .low = planes_ == 2 ? low_.As<std::int8_t>() : nullptr,
               .scale = scale_.As<float>(),
               .sum = sum_.As<float>(),
               .seed = seed_.As<std::int32_t>(),
               .seed16 = seed16_.As<std::int32_t>()};
  }
  return view;
}

void Prepare(const OpsContext& context, const ActivationView& view, Share share) {
  if (context.kernels().quantize_row == nullptr) return;
  const Range rows = share.Of(view.rows);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const QuantizedRow quantized = view.quantized_row(row);
    context.kernels().quantize_row(view.row(row), view.k, &quantized);
  }
}

}  // namespace tandem::ops
