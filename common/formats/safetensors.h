// Reads safetensors files and folders of shards.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "common/formats/mapped_file.h"
#include "common/formats/tensor_source.h"

namespace tandem::formats {

// One model: `model.safetensors`, or the shards that `model.safetensors.index.json` names.
// Thread-safe: immutable.
class SafetensorsModel final : public TensorSource {
 public:
  // `path`: a .safetensors file, or a folder with one of the two above (the single file wins).
  // Errors: those of MappedFile::Open; InvalidArgument for a file that lies (header, holes,
  // overlap, sizes, duplicates, a tensor that is not in the shard the index names); Unimplemented
  // for an element type other than F32, F16, BF16.
  static StatusOr<SafetensorsModel> Open(const std::string& path);
  // One file's bytes in memory, which must outlive the result. `name` is for messages.
  static StatusOr<SafetensorsModel> FromBytes(std::string name, std::span<const std::byte> bytes);

  const std::string& path() const override { return path_; }
  std::span<const TensorView> tensors() const override { return tensors_; }
  const TensorView* Find(std::string_view name) const override;
  StatusOr<std::vector<FileStamp>> Stamps() const override;

 private:
  SafetensorsModel() = default;
  Status AddFile(const std::string& path);
  Status AddShards(const std::string& folder, const std::string& index_path);
  Status AddBytes(const std::string& name, std::span<const std::byte> bytes);

  std::string path_;
  std::vector<MappedFile> files_;
  std::deque<std::string> names_;  // unescaped; tensors_ and index_ point into it
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string_view, std::size_t> index_;
};

}  // namespace tandem::formats
