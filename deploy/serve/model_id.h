// The name under which a model is served, taken from its file.
#pragma once

#include <filesystem>
#include <string>

namespace tandem::deploy {

// "SmolLM2-135M-Instruct.Q4_1.gguf" → "SmolLM2-135M-Instruct": the file's or folder's name without
// ".gguf",
// ".safetensors", a shard number and a weight type. Never empty for a path that names something.
std::string ServedModelId(const std::filesystem::path& model);

}  // namespace tandem::deploy
