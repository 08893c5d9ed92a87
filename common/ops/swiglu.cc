#include "common/ops/swiglu.h"

namespace tandem::ops {

void Swiglu(const OpsContext& context, const SwigluArgs& args, const ActivationView& out,
            Range rows) {
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    context.kernels().swiglu(args.gate + row * out.k, args.up + row * out.k, out.k, out.row(row));
    PrepareRow(context, out, row);
  }
}

}  // namespace tandem::ops
