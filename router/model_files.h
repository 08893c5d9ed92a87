// What the router needs of a model's files: text in and out, and how long a sequence may be. Never
// the weights.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/tokenizer/tokenizer.h"

namespace tandem::router {

struct ModelFiles {
  tokenizer::Tokenizer tokenizer;
  TokenCount context;  // of the model, as its file says
};

// Reads a GGUF file, or a folder with tokenizer.json and config.json.
// Errors: NotFound, InvalidArgument naming the file, the key and what it says.
StatusOr<ModelFiles> ReadModelFiles(const std::string& path);

// The name of a model that has no other: its file's or folder's, without ".gguf".
std::string ModelName(std::string_view path);

}  // namespace tandem::router
