// Memory for attention over more than one segment of keys (kKeySegment): each segment's part of a
// row is computed as if it were all that the row sees, then parts are added in ascending order. So
// several threads may share one long sequence, and a row's bytes depend on its position alone.
//
// One per OpsContext; operators of its threads write different rows of it, behind a Barrier from
// one attention to the next.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "common/base/status.h"
#include "common/ops/aligned_buffer.h"
#include "common/ops/kernels.h"

namespace tandem::ops {

// Rows of a result or of parts of it: a mean of values, and the weights that it is the mean of.
struct PartRows {
  float* const* out;  // [rows] -> [head_dim]
  float* base;        // [rows] as AttendArgs has them
  float* total;
};

class AttentionParts {
 public:
  static constexpr std::int64_t kRowsPerThread = kAmxAttendRows;  // those of the largest call

  AttentionParts() = default;
  // Errors: ResourceExhausted.
  static StatusOr<AttentionParts> Create(int num_threads, std::int64_t head_dim);

  // Of all threads.
  std::int64_t rows() const { return rows_; }
  // Requires: 0 <= row < rows().
  float* out(std::int64_t row) const { return floats_.As<float>() + row * width_; }
  float* base(std::int64_t row) const { return out(rows_) + row; }
  float* total(std::int64_t row) const { return base(rows_) + row; }
  // How many parts of a shared tile are done; zero before and after every attention. Requires: 0 <=
  // tile < num_threads * Cut::kTilesPerThread.
  std::atomic<std::int64_t>& done(std::int64_t tile) const { return done_[tile]; }

 private:
  std::int64_t rows_ = 0;
  std::int64_t width_ = 0;  // floats of a row
  AlignedBuffer floats_;    // [rows, width], [rows] bases, [rows] totals
  std::unique_ptr<std::atomic<std::int64_t>[]> done_;
};

// Adds parts to results; from `fresh_row` on, where there are none yet, copies them. A part without
// weight (all its scores are -infinity) is left out. At most AttentionParts::kRowsPerThread rows.
void AddParts(const Kernels& kernels, std::int64_t head_dim, std::int64_t rows,
              std::int64_t fresh_row, const PartRows& parts, const PartRows& results);

}  // namespace tandem::ops
