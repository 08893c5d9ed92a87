// Models of random weights, the same for the same seed on every machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/formats/dtype.h"
#include "tests/testing/test_model.h"

namespace tandem::testing {

struct GeneratorOptions {
  std::uint64_t seed = 1;
  // Of matrices, where their rows are whole blocks (else DTypeForRows). Norms and biases are F32.
  formats::DType dtype = formats::DType::kF32;
  // By the part of the Hugging Face name that ends it, e.g. {"down_proj.weight", kQ6_K}.
  std::map<std::string, formats::DType> dtype_of;
  bool chat_template = true;
};

// Weights are scaled so that activations stay near one and greedy tokens vary with the prompt.
TestModel GenerateModel(const ModelSpec& spec, const GeneratorOptions& options = {});

}  // namespace tandem::testing
