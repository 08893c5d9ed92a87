// What GGUF and safetensors have in common: named tensors whose bytes lie in a mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "common/base/status.h"
#include "common/formats/dtype.h"
#include "common/formats/mapped_file.h"

namespace tandem::formats {

// Dimensions in the order of PyTorch: [out, in], the last one contiguous. Empty: a scalar.
using TensorShape = absl::InlinedVector<std::int64_t, 4>;

// "[out, in]" for messages.
std::string ToString(const TensorShape& shape);
// Text from a file made fit for a message: quoted, control bytes and non-ASCII escaped, cut at 96.
std::string Quoted(std::string_view text);

// One stored tensor. A view: the source that gave it owns name and bytes.
struct TensorView {
  std::string_view name;
  DType dtype;
  TensorShape shape;
  std::span<const std::byte> bytes;  // rows() × row_bytes(), C order; any alignment

  std::int64_t cols() const { return shape.empty() ? 1 : shape.back(); }
  std::int64_t rows() const;  // product of all dimensions but the last
  std::int64_t elems() const { return rows() * cols(); }
  std::size_t row_bytes() const;  // cols() elements: always whole blocks
  // Requires: 0 <= row < rows().
  std::span<const std::byte> Row(std::int64_t row) const {
    return bytes.subspan(static_cast<std::size_t>(row) * row_bytes(), row_bytes());
  }
};

// A model file, or a folder of shards. Everything in it was checked when it was opened: sizes agree
// with shapes and bytes lie inside the file.
// Thread-safe: immutable.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // The file or folder it was opened from.
  virtual const std::string& path() const = 0;
  // All tensors, in the file's order.
  virtual std::span<const TensorView> tensors() const = 0;
  // Null when there is none of that name.
  virtual const TensorView* Find(std::string_view name) const = 0;
  // Of the files whose bytes these are, as they are now; none for bytes in memory. Errors:
  // FailedPrecondition.
  virtual StatusOr<std::vector<FileStamp>> Stamps() const = 0;

  // Errors: NotFound, naming the file and the tensor.
  StatusOr<TensorView> Get(std::string_view name) const;
  // Errors: NotFound; InvalidArgument when its shape is another, with both.
  StatusOr<TensorView> Get(std::string_view name, const TensorShape& expected) const;
};

}  // namespace tandem::formats
