// Writes safetensors files and folders of shards.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/formats/tensor_source.h"

namespace tandem::testing {

// Collects tensors, in the order of the calls.
class SafetensorsWriter {
 public:
  // Requires: F32, F16 or BF16; `bytes` is what the shape takes; a name that needs no JSON escapes.
  void AddTensor(std::string_view name, formats::DType dtype, const formats::TensorShape& shape,
                 std::span<const std::byte> bytes);

  // One file with all tensors.
  std::string Finish() const;

  // Writes model.safetensors into `folder`, or with num_shards > 1 that many shards (as far as
  // there are tensors) and model.safetensors.index.json.
  void WriteFolder(const std::string& folder, int num_shards) const;

 private:
  struct Tensor {
    std::string name;
    formats::DType dtype;
    formats::TensorShape shape;
    std::string bytes;
  };
  static std::string Assemble(std::span<const Tensor> tensors);

  std::vector<Tensor> tensors_;
};

// A file of `header` (its length before it) and `buffer`, whatever they say.
std::string SafetensorsBytes(std::string_view header, std::string_view buffer);

}  // namespace tandem::testing
