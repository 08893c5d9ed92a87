// The models of the accuracy test: one a type of weight, made alike for Tandem and for llama.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tandem::testing {

struct AccuracyModel {
  std::string name;  // as reference/accuracy.json has it: "stories260k Q4_0"
  std::string path;  // a GGUF file
  std::size_t tokens = 0;
};

// Writes them into `folder`: random ones of every type, stories260K in every type that its rows
// allow where the shared data has it, and SmolLM2 where the model cache has it (that one stays
// where it is).
std::vector<AccuracyModel> WriteAccuracyModels(const std::string& folder);

}  // namespace tandem::testing
