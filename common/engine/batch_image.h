// A batch laid out flat, as the forward pass walks it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/kv/ids.h"
#include "common/ops/paged_kv.h"
#include "common/sequence/batch.h"

namespace tandem::engine {

// Reused from step to step: Set allocates nothing. Not thread-safe while it is set.
class BatchImage {
 public:
  struct Limits {
    TokenCount max_tokens{0};  // of all slices
    std::int32_t max_slices = 0;
    TokenCount max_context{0};  // of one sequence
    std::int32_t vocab_size = 0;
    std::int32_t block_size = 0;
    kv::BlockCount num_blocks{0};
  };
  explicit BatchImage(const Limits& limits);

  // Errors: InvalidArgument naming the slice, the field, its value and its range; the image is then
  // empty.
  Status Set(const sequence::Batch& batch);

  std::int64_t num_rows() const { return static_cast<std::int64_t>(ids_.size()); }
  std::span<const std::int32_t> ids() const { return ids_; }              // [num_rows]
  std::span<const std::int32_t> positions() const { return positions_; }  // [num_rows]
  std::span<const ops::KvSlice> slices() const { return slices_; }
  // Rows whose logits are wanted, and which slices they belong to; both in the batch's order.
  std::span<const std::int32_t> sample_rows() const { return sample_rows_; }
  std::span<const std::int32_t> sample_slices() const { return sample_slices_; }
  // Those rows as slices of one token: row i of a buffer that holds them alone.
  std::span<const ops::KvSlice> sample_kv_slices() const { return sample_kv_slices_; }

 private:
  Status CheckSlice(const sequence::Slice& slice, std::size_t index) const;
  void Clear();
  void Append(const sequence::Slice& slice);

  Limits limits_;
  std::size_t table_stride_;  // block ids of one slice, at most
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> positions_;
  std::vector<ops::KvSlice> slices_;
  std::vector<std::int32_t> tables_;  // [max_slices, table_stride_]
  std::vector<std::int32_t> sample_rows_;
  std::vector<std::int32_t> sample_slices_;
  std::vector<ops::KvSlice> sample_kv_slices_;
};

}  // namespace tandem::engine
