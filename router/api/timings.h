// Where a request's time and bytes went, for clients that ask with "timings": true.
#pragma once

#include <string>

#include "common/base/time.h"
#include "router/core/actions.h"

namespace tandem::router {

struct RequestTimes {
  Time received{};    // its body was complete
  Time submitted{};   // parsed, rendered, tokenized
  Time first_text{};  // the first token came; Time{}: none
};

// The mean gap between tokens, the first excluded. Zero for fewer than two tokens.
Duration MeanItl(const Bill& bill);

// A JSON object; every *_ms in milliseconds, transfer_bytes in bytes.
std::string TimingsJson(const RequestTimes& times, const Bill& bill);

}  // namespace tandem::router
