// Fields that the API has and this build does not honour. Load tools and SDKs send many of them
// with the value that changes nothing; any other value is refused, never dropped.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string_view>

#include "router/api/api_error.h"
#include "router/api/completion_request.h"

namespace tandem::router {

enum class FieldVerdict {
  kUnknown,  // not a field that would change the answer: accepted and counted
  kNeutral,  // known; this value changes nothing
  kRefused,  // known, and this value asks for what is not done here
};

FieldVerdict JudgeField(CompletionKind kind, std::string_view name,
                        const boost::json::value& value);

// 400 for a refused field.
ApiError UnhonouredError(CompletionKind kind, std::string_view name,
                         const boost::json::value& value);

}  // namespace tandem::router
