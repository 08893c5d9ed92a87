// The JSON header of one safetensors file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/formats/dtype.h"
#include "common/formats/tensor_source.h"

namespace tandem::formats {

struct SafetensorsEntry {
  std::string name;
  DType dtype;
  TensorShape shape;
  std::uint64_t begin;  // in the buffer after the header
  std::uint64_t end;
};

// Parses `json` without building a tree of it: memory stays in proportion to real tensors. Entries
// come in the header's order; names differ; end − begin is what dtype and shape take. Whether the
// ranges cover the buffer is the caller's to check. `file` is for messages.
// Errors: InvalidArgument; Unimplemented for an element type that is not read.
StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(const std::string& file,
                                                               std::string_view json);

}  // namespace tandem::formats
