#include "common/ops/ops_context.h"

#include <algorithm>

namespace tandem::ops {

const Kernels& KernelsOf(NumericsClass numerics) {
  switch (numerics) {
#if defined(TANDEM_OPS_SIMD)
    case NumericsClass::kAvx2:
      return kAvx2Kernels;
    case NumericsClass::kAvx512:
      return kAvx512Kernels;
    case NumericsClass::kAvx512Vnni:
      return kAvx512VnniKernels;
    case NumericsClass::kAmx:
      return kAmxKernels;
#endif
    default:
      return kScalarKernels;
  }
}

Status OpsContext::Options::Validate() const {
  constexpr std::int64_t kMaxInnerSize = std::int64_t{1} << 24;
  if (num_threads < 1) return InvalidArgument("num_threads is {}, must be at least 1", num_threads);
  if (max_inner_size < 1 || max_inner_size > kMaxInnerSize) {
    return InvalidArgument("inner size {} is not in 1..{}", max_inner_size, kMaxInnerSize);
  }
  if (head_dim < 1 || head_dim > kMaxHeadDim) {
    return InvalidArgument("head_dim {} is not in 1..{}", head_dim, kMaxHeadDim);
  }
  return OkStatus();
}

StatusOr<OpsContext> OpsContext::Create(const Options& options) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  OpsContext context;
  context.numerics_ = options.numerics;
  context.kernels_ = &KernelsOf(options.numerics);
  context.scratch_floats_ = RoundUp(
      std::max({MatmulScratchFloats(options.max_inner_size), AttendScratchFloats(options.head_dim),
                AmxAttendScratchFloats(options.head_dim)}),
      1024);
  TANDEM_ASSIGN_OR_RETURN(context.scratch_,
                          AlignedBuffer::Allocate(context.scratch_floats_ * options.num_threads *
                                                  static_cast<std::int64_t>(sizeof(float))));
  TANDEM_ASSIGN_OR_RETURN(context.attention_parts_,
                          AttentionParts::Create(options.num_threads, options.head_dim));
  return context;
}

}  // namespace tandem::ops
