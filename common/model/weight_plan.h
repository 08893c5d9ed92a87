// Where each packed matrix of a model lies in one run of bytes, and what those bytes are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/hash128.h"
#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/weight_reader.h"
#include "common/ops/kernels.h"
#include "common/ops/numerics_class.h"
#include "common/ops/weight_blocks.h"

namespace tandem::model {

struct PlannedMatrix {
  PartRef ref;
  ops::WeightSource source;
  ops::PackedView shape;  // without data
  std::int64_t offset;    // of its first panel, a multiple of kMatrixAlignment
};

// The bytes are made in windows of a huge page, by any thread in any order: a window's bytes are a
// function of the plan alone. Immutable: any thread may read. The reader's source outlives it.
class WeightPlan {
 public:
  static constexpr std::int64_t kWindowBytes = 2 << 20;
  static constexpr std::int64_t kMatrixAlignment = 64;

  // Matrices lie in the order in which a step reads them. Errors: those of WeightReader, for the
  // first part in order, matrix or not: a wrong file fails before any work.
  static StatusOr<WeightPlan> Make(const WeightReader& reader, const ModelConfig& config,
                                   ops::NumericsClass numerics);

  const std::vector<PlannedMatrix>& matrices() const { return matrices_; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t num_windows() const { return (bytes_ + kWindowBytes - 1) / kWindowBytes; }
  std::int64_t stored_bytes() const { return stored_bytes_; }  // of all parts, in the file

  // Names the order and layouts, and by packing samples the packing itself: plans of equal layout,
  // for weights of equal content, make the same bytes.
  const Hash128& layout() const { return layout_; }

  // Writes window `window`, kWindowBytes or less for the last. `spare` is the calling thread's,
  // reused from call to call.
  void Fill(std::int64_t window, std::byte* out, std::vector<std::byte>& spare) const;

 private:
  std::vector<PlannedMatrix> matrices_;
  std::int64_t bytes_ = 0;
  std::int64_t stored_bytes_ = 0;
  Hash128 layout_;
};

}  // namespace tandem::model
