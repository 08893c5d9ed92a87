// Rows that are about to enter a matrix product: f32 [rows, k] and, where the numerics class wants
// it, an image of the same rows: int8 with a scale per row and 32 elements, or bf16.
//
// An operator that ends in an Activations view writes the f32 rows; Prepare() then makes the image
// of each row (a function of that row alone). Memory is taken once; a view is a value that each
// thread makes for itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/status.h"
#include "common/ops/aligned_buffer.h"
#include "common/ops/ops_context.h"
#include "common/ops/share.h"

namespace tandem::ops {

struct ActivationView {
  float* x = nullptr;  // [rows, k]
  std::int64_t rows = 0;
  std::int64_t k = 0;
  std::byte* blocks = nullptr;   // the image, [row blocks, groups]; null where there is none
  std::int64_t groups = 0;       // of a row
  std::int64_t block_bytes = 0;  // 16 rows by one group
  std::int64_t unit = 1;         // rows whose image shares cache lines: for one thread to write

  std::int64_t units() const { return (rows + unit - 1) / unit; }
  Range RowsOf(Range units) const {
    return {units.begin * unit, units.end * unit < rows ? units.end * unit : rows};
  }

  float* row(std::int64_t index) const { return x + index * k; }
  // The first block of the row's 16.
  std::byte* blocks_of(std::int64_t row) const {
    return blocks + row / kActivationRows * groups * block_bytes;
  }
};

class Activations {
 public:
  Activations() = default;
  // Room for `max_rows` rows of up to `max_k` elements. Errors: InvalidArgument for sizes below 1,
  // ResourceExhausted.
  static StatusOr<Activations> Create(NumericsClass numerics, std::int64_t max_rows,
                                      std::int64_t max_k);
  // Requires: within the room. Views of other shapes over the same object share its memory.
  ActivationView View(std::int64_t rows, std::int64_t k) const;

 private:
  std::int64_t max_rows_ = 0;
  std::int64_t max_groups_ = 0;  // per row
  std::int64_t block_bytes_ = 0;
  bool turns_ = false;  // images of few rows
  AlignedBuffer x_;
  AlignedBuffer blocks_;
};

// Makes the image of a row that has been written; nothing to do where the class has none.
void PrepareRow(const OpsContext& context, const ActivationView& view, std::int64_t row);
// Of some rows.
void Prepare(const OpsContext& context, const ActivationView& view, Range rows);

}  // namespace tandem::ops
