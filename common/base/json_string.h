// Text as a JSON string.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// Appends `text`, quoted; what JSON lets stand as it is does. Requires: valid UTF-8.
void AppendJsonString(std::string_view text, std::string& out);
std::string JsonString(std::string_view text);

}  // namespace tandem
