#include "common/ops/logits.h"

#include <algorithm>
#include <array>
#include <limits>

#include "common/base/check.h"

namespace tandem::ops {

namespace {

constexpr std::size_t kLogitSlice = 1024;
constexpr std::size_t kLogitLanes = 16;

// -infinity where all are NaN. Lanes side by side, so that compilers vectorise it.
float LargestOf(std::span<const float> logits) {
  std::array<float, kLogitLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + kLogitLanes <= logits.size(); i += kLogitLanes) {
    for (std::size_t l = 0; l < kLogitLanes; ++l) {
      lanes[l] = logits[i + l] > lanes[l] ? logits[i + l] : lanes[l];
    }
  }
  for (; i < logits.size(); ++i) lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  return *std::max_element(lanes.begin(), lanes.end());
}

}  // namespace

std::int64_t Argmax(std::span<const float> logits) {
  TANDEM_CHECK(!logits.empty());
  std::size_t best_slice = 0;
  float best = -std::numeric_limits<float>::infinity();
  for (std::size_t begin = 0; begin < logits.size(); begin += kLogitSlice) {
    const float largest =
        LargestOf(logits.subspan(begin, std::min(kLogitSlice, logits.size() - begin)));
    if (largest <= best) continue;
    best = largest;
    best_slice = begin;
  }
  const auto at =
      std::find(logits.begin() + static_cast<std::ptrdiff_t>(best_slice), logits.end(), best);
  return at == logits.end() ? 0 : at - logits.begin();
}

bool AnyNan(std::span<const float> logits) {
  std::array<std::uint32_t, kLogitLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLogitLanes <= logits.size(); i += kLogitLanes) {
    for (std::size_t l = 0; l < kLogitLanes; ++l)
      lanes[l] |= logits[i + l] != logits[i + l] ? 1u : 0u;
  }
  for (; i < logits.size(); ++i) lanes[0] |= logits[i] != logits[i] ? 1u : 0u;
  return std::any_of(lanes.begin(), lanes.end(), [](std::uint32_t lane) { return lane != 0; });
}

double ExpSum(const OpsContext& context, std::span<const float> logits, float max,
              std::span<float> out) {
  TANDEM_CHECK(out.size() == logits.size());
  return context.kernels().exp_sum(logits.data(), static_cast<std::int64_t>(logits.size()), max,
                                   out.data());
}

}  // namespace tandem::ops
