// A small served model: byte-level vocabulary, ids "m" and "alias".
#pragma once

#include <string>
#include <string_view>

#include "router/api/served_model.h"

namespace tandem::router {

// An empty `chat_template`: none.
ServedModel MakeServedModel(std::string chat_template);

// One token a byte, which this vocabulary can say for any text.
TokenIds ByteTokens(const ServedModel& model, std::string_view text);

}  // namespace tandem::router
