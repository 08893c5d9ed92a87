#include "common/ops/logits.h"

#include "common/base/check.h"

namespace tandem::ops {

std::int64_t Argmax(std::span<const float> logits) {
  TANDEM_CHECK(!logits.empty());
  std::size_t best = logits.size();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (best == logits.size() ? logits[i] == logits[i] : logits[i] > logits[best]) best = i;
  }
  return best == logits.size() ? 0 : static_cast<std::int64_t>(best);
}

double ExpSum(const OpsContext& context, std::span<const float> logits, float max,
              std::span<float> out) {
  TANDEM_CHECK(out.size() == logits.size());
  return context.kernels().exp_sum(logits.data(), static_cast<std::int64_t>(logits.size()), max,
                                   out.data());
}

}  // namespace tandem::ops
