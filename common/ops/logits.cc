#include "common/ops/logits.h"

#include <algorithm>
#include <limits>

#include "common/base/check.h"

namespace tandem::ops {

std::optional<std::int64_t> Argmax(const OpsContext& context, std::span<const float> logits) {
  TANDEM_CHECK(!logits.empty());
  constexpr std::size_t kSlice = 1024;
  std::size_t best_slice = 0;
  float best = -std::numeric_limits<float>::infinity();
  for (std::size_t begin = 0; begin < logits.size(); begin += kSlice) {
    const std::size_t size = std::min(kSlice, logits.size() - begin);
    float largest;
    if (context.kernels().largest(&logits[begin], static_cast<std::int64_t>(size), &largest) != 0) {
      return std::nullopt;
    }
    if (largest <= best) continue;
    best = largest;
    best_slice = begin;
  }
  return std::find(logits.begin() + static_cast<std::ptrdiff_t>(best_slice), logits.end(), best) -
         logits.begin();
}

double ExpSum(const OpsContext& context, std::span<const float> logits, float max,
              std::span<float> out) {
  TANDEM_CHECK(out.size() == logits.size());
  return context.kernels().exp_sum(logits.data(), static_cast<std::int64_t>(logits.size()), max,
                                   out.data());
}

}  // namespace tandem::ops
