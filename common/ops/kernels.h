// The table of one numerics class's kernels: plain functions over raw pointers, one thread's part
// of one operator each. Internal to ops: callers use the operator headers.
//
// The sources that implement a table are compiled for their instruction set, so this header may
// include nothing that has external inline functions.
#pragma once

#include <stdint.h>

namespace tandem::ops {

// How a packed matrix lies in memory. A panel is 16 output columns wide; columns past n and
// elements past k are zero.
enum class WeightLayout : uint8_t {
  kRowsF32,     // [n, k] f32: the scalar class
  kPanelF32,    // [panels, k, 16] f32
  kPanelF16,    // [panels, k, 16] IEEE half
  kPanelBf16,   // [panels, k, 16] bfloat16
  kPanelInt8,   // [panels, groups] blocks: q [group, 16] i8, scale [16] f32, min [16] f32 if any
  kPanelVnni,   // same blocks, q as [group / 4, 16, 4] u8; without min the byte is q + 128
  kPanelVnni4,  // same blocks, two values of 0..15 a byte: [group / 8, 16, 4], low nibbles first
  // Blocks of 32 elements of k (as many zeros past k as are missing): values, scale [32 / group,
  // 16], min [16] if any, these as f32 or halves.
  kTileNibble,  // [4, 32] u16, in word [i, e] element e of columns 4 i .. 4 i + 3, low bits first;
                // without min q + 8
  kTileByte,    // [8, 16, 2, 2] i8: elements 2 i and 2 i + 1 of columns 2 c and 2 c + 1 at [c, i]
  kTileBf16,    // [16, 32] bfloat16, no factors
};

inline constexpr int64_t kPanelColumns = 16;
inline constexpr int64_t kActivationGroup = 32;  // elements of a block of activations

struct PackedView {
  WeightLayout layout;
  const uint8_t* data;
  int64_t n;             // output columns
  int64_t k;             // inner size
  int32_t group;         // elements of k that share a weight scale: 32 or 16; 0 for float layouts
  int32_t has_min;       // weight = scale * q + min (then q is not negative), else scale * q
  int32_t half_factors;  // of tile layouts: scale and min are halves
  int64_t group_count;   // blocks of a panel; they hold k rounded up to a multiple of 32
  int64_t block_bytes;   // one group of one panel; in tile layouts 32 elements of one panel
  int64_t panel_bytes;
};

// Rows that one block of integer activations holds, and that one tile product takes.
inline constexpr int64_t kActivationRows = 16;
// Whether the bf16 image of so many rows has their pairs turned: each row in every line of its 16.
inline constexpr bool AreTurned(int64_t rows) { return rows > 1 && rows <= 2 * kActivationRows; }
// Bytes of such a line: four for each of 8 or of 16 rows.
inline constexpr int64_t TurnedLineBytes(int64_t rows) {
  return 4 * (rows <= kActivationRows / 2 ? kActivationRows / 2 : kActivationRows);
}

// 16 rows by one group of 32 elements as int8. Elements past k are zero. A matrix is [row blocks,
// groups] of them.
struct alignas(64) ActivationBlock {
  int8_t q[kActivationRows][kActivationGroup];
  float scale[kActivationRows];
  float sum[kActivationRows];          // scale * sum of the integers: multiplies the weights' min
  int32_t seed[kActivationRows];       // -128 * that sum: undoes the weights' offset
  int32_t seed16[2][kActivationRows];  // the same of each 16 elements
};

struct MatmulArgs {
  const PackedView* weights;
  const float* x;  // [rows, k], row stride x_stride
  // The rows' other image, [rows / 16, xq_groups]: ActivationBlocks (int8), or [16, 32] bf16 ([16,
  // 16, 2] with pairs turned for 9 .. 32 rows, the first half [16, 8, 2] for 2 .. 8), with whatever
  // rows follow up to a multiple of 32. Null where the class has none.
  const void* xq;
  int64_t xq_groups;   // of a row
  int64_t x_stride;    // elements
  int64_t rows;        // of bf16 at most kTileMatmulRows
  float* y;            // [rows, n], row stride y_stride
  int64_t y_stride;    // elements
  const float* bias;   // [n] or null
  int32_t accumulate;  // y += product instead of y = product
  // The next panels to compute; 0 when there are no more.
  int32_t (*claim)(void* claims, int64_t* begin, int64_t* end);
  void* claims;
  float* scratch;  // MatmulScratchFloats(k)
};

// out = silu(x gate^T) * (x up^T), as the image of rows.
struct GatedArgs {
  MatmulArgs gate;       // without y
  const PackedView* up;  // of the layout of gate's weights
  const float* up_bias;  // [n] or null
  void* out;             // not x's image
  int64_t out_groups;    // of a row
};

inline constexpr int64_t kKeyChunk = 64;  // keys per softmax step, aligned to position 0
// Keys of a segment, aligned to position 0. Each is computed as if it were all that a row sees.
inline constexpr int64_t kKeySegment = 2048;
inline constexpr int64_t kAttendRows = 64;  // query rows that one call takes, at most
inline constexpr int64_t kAmxAttendRows = 256;
inline constexpr int64_t kMaxHeadDim = 256;

// Query rows that share one KV head. Row r sees the keys [max(0, position - window + 1), position],
// those of them that lie in [key_begin, key_end): at least one, unless it is of a call to come.
struct AttendArgs {
  int64_t rows;             // <= the class's attend_rows
  const float* const* q;    // [rows] -> [head_dim]
  float* const* out;        // [rows] -> [head_dim]
  const int32_t* position;  // [rows] ascending
  int64_t window;           // 0: no window
  int64_t key_begin;        // a multiple of kKeyChunk
  int64_t key_end;
  float scale;      // of the scores
  int32_t precise;  // queries as two bf16 where the class rounds them
  int64_t head_dim;
  int64_t block_size;          // tokens
  int64_t block_bytes;         // one (layer, block)
  const uint8_t* kv;           // this KV head's keys in block 0; its values lie block_size rows on
  const int32_t* block_table;  // covers max(position)
  float* scratch;              // AttendScratchFloats(head_dim), or AmxAttendScratchFloats
  // [rows] or null: what the exponents of a row's weights are relative to, and the weights' sum.
  float* base;
  float* total;
};

// The keys of a row: [FirstKeyOf, EndKeyOf).
inline constexpr int64_t FirstKeyOf(const AttendArgs& args, int64_t row) {
  const int64_t begin = args.window > 0 ? args.position[row] - args.window + 1 : 0;
  return begin > args.key_begin ? begin : args.key_begin;
}
inline constexpr int64_t EndKeyOf(const AttendArgs& args, int64_t row) {
  const int64_t end = args.position[row] + 1;
  return end < args.key_end ? end : args.key_end;
}

inline constexpr int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
// Rows that one call of a product in bf16 takes, at most.
inline constexpr int64_t kTileMatmulRows = 512;
// Unpacked weights, 32 columns in f32; or of some blocks of k in bf16, and 32 columns of sums.
inline constexpr int64_t MatmulScratchFloats(int64_t k) {
  const int64_t tiles = (40 << 10) / 4 + kTileMatmulRows * 32;
  return RoundUp(k, 32) * 32 > tiles ? RoundUp(k, 32) * 32 : tiles;
}
// Keys and values of a chunk, accumulators, scores, running maximum and sum of each row.
inline constexpr int64_t AttendScratchFloats(int64_t head_dim) {
  return 2 * kKeyChunk * RoundUp(head_dim, 16) +
         kAttendRows * (RoundUp(head_dim, 16) + kKeyChunk + 2) + 64;
}
// Of rows: ranges, bases, limits, totals, sums, queries. A chunk's keys and twice its values,
// twice copies of both; twice the scores, weights and factors of 16 rows.
inline constexpr int64_t AmxAttendScratchFloats(int64_t head_dim) {
  return kAmxAttendRows * (4 + 16 + RoundUp(head_dim, 32) * 2) +
         kKeyChunk * RoundUp(head_dim, 32) * 7 / 2 + 2 * kKeyChunk * 16 * 3 / 2 + 32 + 64;
}

struct Kernels {
  // y = x / sqrt(mean(x^2) + eps) * weight. x == y is allowed.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t n, float* y);
  // Of each i < pairs: x[i] and x[i + pairs] turned by the angle i, without a fused multiply-add.
  void (*rotate_halves)(const float* cos, const float* sin, int64_t pairs, float* x);
  // To nearest, ties to even, denormals too; a NaN stays one. In every class the same.
  void (*to_bf16)(const float* x, int64_t n, uint16_t* out);
  // y = silu(gate) * up. y may be gate or up.
  void (*swiglu)(const float* gate, const float* up, int64_t n, float* y);
  // Row `row` (0..15) of 16 into their image (MatmulArgs::xq); a product will take `rows` rows at
  // once. Null where the class has none.
  void (*image_row)(const float* x, int64_t k, void* image, int64_t row, int64_t rows);
  void (*matmul)(const MatmulArgs* args);
  // Calls of one head_dim, window, block size, precision and scratch, in order. The one that the
  // thread is likely to make after them, or null: what it reads may be fetched ahead.
  void (*attend)(const AttendArgs* calls, int64_t count, const AttendArgs* after);
  // The largest that is not NaN, or -infinity; returns whether one is NaN.
  int32_t (*largest)(const float* x, int64_t n, float* max);
  // out[i] = exp(x[i] - max); returns their sum, in fixed slices. Requires: x[i] <= max.
  double (*exp_sum)(const float* x, int64_t n, float max, float* out);
  int64_t attend_rows;  // that one call of attend takes, at most
  float base_unit;      // a weight is exp(base_unit * (score - base))
  int64_t panel_unit;   // panels that matmul keeps in flight when rows are few
  // Of weights in tile layouts. Null where the class has no such product.
  void (*gated_matmul)(const GatedArgs* args);
};

// The tables. Calling into one needs the class's instruction sets; taking its address does not.
extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512VnniKernels;
extern const Kernels kAmxKernels;

}  // namespace tandem::ops
