#include "common/ops/rms_norm.h"

namespace tandem::ops {

void RmsNorm(const OpsContext& context, const RmsNormArgs& args, const ActivationView& out,
             Range rows) {
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    context.kernels().rms_norm(args.x + row * out.k, args.weight, args.eps, out.k, out.row(row));
    PrepareRow(context, out, row);
  }
}

void HeadNorm(const OpsContext& context, const HeadNormArgs& args, Range rows) {
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    for (std::int64_t head = 0; head < args.heads; ++head) {
      float* x = args.x + row * args.x_stride + head * args.head_dim;
      context.kernels().rms_norm(x, args.weight, args.eps, args.head_dim, x);
    }
  }
}

}  // namespace tandem::ops
