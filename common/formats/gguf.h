// Reads GGUF files (versions 2 and 3), as ggml's docs/gguf.md describes them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "common/formats/gguf_metadata.h"
#include "common/formats/mapped_file.h"
#include "common/formats/tensor_source.h"

namespace tandem::formats {

// One mapped file: metadata, then tensors. Shapes are in PyTorch's order: GGUF's dims reversed.
// Everything is checked when it is opened; nothing is copied but names' positions, so that opening
// touches only the head of the file.
// Thread-safe: immutable.
class GgufFile final : public TensorSource {
 public:
  // Errors: those of MappedFile::Open; InvalidArgument for a file that lies, with path, what, value
  // and what to do; Unimplemented for a version, tensor type or split file that is not read here.
  static StatusOr<GgufFile> Open(const std::string& path);
  // The same for bytes in memory, which must outlive the result. `name` is for messages.
  static StatusOr<GgufFile> FromBytes(std::string name, std::span<const std::byte> bytes);

  const GgufMetadata& metadata() const { return metadata_; }
  int version() const { return version_; }

  const std::string& path() const override { return metadata_.path(); }
  std::span<const TensorView> tensors() const override { return tensors_; }
  const TensorView* Find(std::string_view name) const override;
  StatusOr<std::vector<FileStamp>> Stamps() const override;

 private:
  GgufFile(int version, GgufMetadata metadata, std::vector<TensorView> tensors,
           std::unordered_map<std::string_view, std::size_t> index);

  std::optional<MappedFile> mapping_;  // none when made from bytes
  int version_;
  GgufMetadata metadata_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string_view, std::size_t> index_;
};

}  // namespace tandem::formats
