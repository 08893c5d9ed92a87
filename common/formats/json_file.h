// JSON files (config.json, tokenizer.json, …) through Boost.JSON, with caps and errors as values.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tandem::formats {

struct JsonLimits {
  std::size_t max_bytes = std::size_t{64} << 20;    // of the text
  std::size_t max_memory = std::size_t{512} << 20;  // of the parsed value
  int max_depth = 64;
};

// `name` is for messages. Errors: InvalidArgument for text that is no JSON (with line and column),
// too long, too deep, or whose value takes too much memory.
StatusOr<boost::json::value> ParseJson(std::string_view name, std::string_view text,
                                       const JsonLimits& limits = {});

// Errors: those of MappedFile::Open and ParseJson.
StatusOr<boost::json::value> ReadJsonFile(const std::string& path, const JsonLimits& limits = {});

}  // namespace tandem::formats
