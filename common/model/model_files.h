// Opens the files of a model and reads its shape, whichever format it comes in.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/formats/tensor_source.h"
#include "common/model/config.h"
#include "common/model/weight_reader.h"

namespace tandem::model {

struct ModelFiles {
  std::unique_ptr<formats::TensorSource> tensors;
  Naming naming;
  ModelConfig config;
};

// `path` as Model::Load takes it. Errors: the same, but for weights.
StatusOr<ModelFiles> OpenModelFiles(const std::string& path);

}  // namespace tandem::model
