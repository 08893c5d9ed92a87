#include "common/ops/attention_parts.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/ops/attention_cut.h"

namespace tandem::ops {

StatusOr<AttentionParts> AttentionParts::Create(int num_threads, std::int64_t head_dim) {
  AttentionParts parts;
  parts.rows_ = num_threads * kRowsPerThread;
  parts.width_ = RoundUp(head_dim, 16);
  TANDEM_ASSIGN_OR_RETURN(parts.floats_,
                          AlignedBuffer::Allocate(parts.rows_ * (parts.width_ + 2) *
                                                  static_cast<std::int64_t>(sizeof(float))));
  parts.done_ = std::make_unique<std::atomic<std::int64_t>[]>(num_threads * Cut::kTilesPerThread);
  return parts;
}

void AddParts(const Kernels& kernels, std::int64_t head_dim, std::int64_t rows,
              std::int64_t fresh_row, const PartRows& parts, const PartRows& results) {
  constexpr std::int64_t kMaxRows = AttentionParts::kRowsPerThread;
  TANDEM_CHECK(fresh_row >= 0 && fresh_row <= rows && rows <= kMaxRows);
  float moved[2][kMaxRows] = {};  // bases, relative to the higher one, of results and of parts
  for (std::int64_t row = 0; row < fresh_row; ++row) {
    const float base = std::max(results.base[row], parts.base[row]);
    moved[0][row] = kernels.base_unit * (results.base[row] - base);
    moved[1][row] = kernels.base_unit * (parts.base[row] - base);
  }
  for (float* of : moved) kernels.exp_sum(of, fresh_row, 0.0f, of);
  const auto copy = [&](std::int64_t row) {
    std::copy_n(parts.out[row], head_dim, results.out[row]);
    results.base[row] = parts.base[row];
    results.total[row] = parts.total[row];
  };
  for (std::int64_t row = 0; row < fresh_row; ++row) {
    if (parts.total[row] == 0) continue;
    if (results.total[row] == 0) {
      copy(row);
      continue;
    }
    const float before = results.total[row] * moved[0][row];
    const float part = parts.total[row] * moved[1][row];
    const float total = before + part;
    const float share[2] = {before / total, part / total};
    float* out = results.out[row];
    for (std::int64_t i = 0; i < head_dim; ++i) {
      out[i] = out[i] * share[0] + parts.out[row][i] * share[1];
    }
    results.base[row] = std::max(results.base[row], parts.base[row]);
    results.total[row] = total;
  }
  for (std::int64_t row = fresh_row; row < rows; ++row) copy(row);
}

}  // namespace tandem::ops
