// A model as a node holds it, with the name of its instance.
#pragma once

#include <memory>
#include <string>

#include "common/base/hash128.h"
#include "common/base/status.h"
#include "common/model/model.h"

namespace tandem::worker {

struct LoadedModel {
  std::unique_ptr<const model::Model> model;
  Hash128 instance;  // of weights, tokenizer and template
};

// Loads weights for the numerics class (or "auto"), logs how far it is, and reads the tokenizer for
// the instance's name. Errors: those of the readers.
StatusOr<LoadedModel> LoadModel(const std::string& path, const std::string& numerics, int threads);

}  // namespace tandem::worker
