// Reads a model's shape from a GGUF file's metadata.
#pragma once

#include "common/base/status.h"
#include "common/formats/gguf.h"
#include "common/model/config.h"

namespace tandem::model {

// Errors: InvalidArgument for a missing or absurd key; Unimplemented for another architecture or a
// variant that is not computed here.
StatusOr<ModelConfig> ConfigFromGguf(const formats::GgufFile& file);

}  // namespace tandem::model
