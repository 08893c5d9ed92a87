// Turns a template's tokens into its tree, and refuses what the interpreter could not do.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/template/ast.h"

namespace tandem::chat_template {

// Errors: InvalidArgument naming the construct and its line.
StatusOr<Block> Parse(std::string_view source);

}  // namespace tandem::chat_template
