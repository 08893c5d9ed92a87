// Reads a model's shape from the config.json beside its safetensors.
#pragma once

#include <boost/json/value.hpp>
#include <string>

#include "common/base/status.h"
#include "common/model/config.h"

namespace tandem::model {

// `config` as Hugging Face's configuration_{llama,mistral,qwen2,qwen3}.py read it, their defaults
// included; `generation` (of generation_config.json, null where there is none) may add
// end-of-sequence ids. `name` is for messages.
// Errors: InvalidArgument for a missing or absurd field; Unimplemented for another architecture or
// a variant that is not computed here.
StatusOr<ModelConfig> ConfigFromHf(const std::string& name, const boost::json::value& config,
                                   const boost::json::value& generation);

}  // namespace tandem::model
