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

struct ModelFlags {
  std::string path;
  std::string numerics = "auto";
  int threads = 0;  // 0: one a CPU
  // A folder; "auto": tandem/weights in $XDG_CACHE_HOME or ~/.cache; "off".
  std::string weights_cache = "off";
};

// Loads weights, logs how far it is and where they lie, and reads the tokenizer for the instance's
// name. Errors: those of the readers; InvalidArgument for a folder that is not an absolute path.
StatusOr<LoadedModel> LoadModel(const ModelFlags& flags);

}  // namespace tandem::worker
