// The body of a request as a JSON object, whatever its bytes are: bounded in depth and memory.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <string_view>

#include "router/api/api_error.h"

namespace tandem::router {

inline constexpr std::size_t kJsonDepthMax = 32;
inline constexpr std::size_t kJsonMemoryMax = std::size_t{192} << 20;

// Errors: 400 with the byte position of what is not JSON, is not UTF-8 (lone surrogates included)
// or is nested too deep; 413 when parsing takes more than kJsonMemoryMax in all.
ApiResult<boost::json::object> ParseJsonObject(std::string_view body);

}  // namespace tandem::router
