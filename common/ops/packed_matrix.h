// A weight matrix in the layout that one numerics class's kernels stream: made once at load, then
// read by every thread.
//
//   class        F32, F16, BF16 in the file    quantised in the file
//   scalar-f32   f32 rows                      f32 rows (4 bytes an element)
//   avx2,avx512  panels of the same type       int8 panels, 9 or 10 bits an element
//   avx512-vnni  panels of the same type       int8 panels; 4-bit types 6 bits an element
//   amx          F32, F16: the same panels;    tiles of int8 or 4 bits, with the file's factors:
//                BF16: tiles                   4.5 to 10 bits an element
//
// All conversions are exact but for the scalar class's and Q*_1's scale * q + min, which rounds
// once or twice in f32.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "common/ops/aligned_buffer.h"
#include "common/ops/kernels.h"
#include "common/ops/numerics_class.h"
#include "common/ops/weight_blocks.h"

namespace tandem::ops {

class PackedMatrix {
 public:
  PackedMatrix() = default;
  // Packs into memory of its own. Errors: InvalidArgument if the source is not valid,
  // ResourceExhausted.
  static StatusOr<PackedMatrix> Pack(const WeightSource& source, NumericsClass numerics);
  // Packed already (PackPanels), in memory that outlives it.
  static PackedMatrix At(const PackedView& view);

  // The layout that the source gets, without data. Requires: a valid source.
  static PackedView ShapeOf(const WeightSource& source, NumericsClass numerics);
  static std::int64_t PanelsOf(const PackedView& view) {
    return RoundUp(view.n, kPanelColumns) / kPanelColumns;
  }
  static std::int64_t BytesOf(const PackedView& view) { return PanelsOf(view) * view.panel_bytes; }

  std::int64_t n() const { return view_.n; }  // output columns
  std::int64_t k() const { return view_.k; }
  std::int64_t bytes() const { return BytesOf(view_); }
  bool is_quantized() const { return view_.group > 0; }
  // Stays valid while this lives; moving does not change it.
  const PackedView& view() const { return view_; }

 private:
  PackedView view_{};
  AlignedBuffer buffer_;  // empty where another owns the bytes
};

}  // namespace tandem::ops
