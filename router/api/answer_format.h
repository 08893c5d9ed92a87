// The bytes of answers: stream events and whole responses, for both endpoints.
//
// An event is one `data: …` line and an empty line. What all events of a request share (id, object,
// created, model) is formatted once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/units.h"
#include "common/sequence/sampling_params.h"
#include "router/api/api_error.h"
#include "router/api/completion_request.h"

namespace tandem::router {

struct Usage {
  TokenCount prompt{0};
  TokenCount completion{0};
  TokenCount cached{0};  // of the prompt
};

inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

class AnswerFormat {
 public:
  struct Options {
    CompletionKind kind = CompletionKind::kText;
    std::string id;  // "chatcmpl-…"
    std::string model;
    std::int64_t created_unix_s = 0;
    bool include_usage = false;     // "usage": null where there is none
    bool continuous_usage = false;  // usage in every event
  };
  explicit AnswerFormat(Options options);

  // `first`: nothing was sent before, so chat says the role too. `usage` is shown with
  // continuous_usage only.
  std::string TextEvent(std::string_view text, bool first, const Usage& usage) const;
  // `timings`: a JSON object, or empty. Shown here where no usage event follows.
  std::string FinishEvent(std::string_view finish_reason, bool first, const Usage& usage,
                          std::string_view timings) const;
  std::string UsageEvent(const Usage& usage, std::string_view timings) const;
  static std::string ErrorEvent(const ApiError& error);

  // The body of an answer that is not streamed.
  std::string Whole(std::string_view text, std::string_view finish_reason, const Usage& usage,
                    std::string_view timings) const;

 private:
  std::string Begin(std::string_view object) const;
  std::string Choice(std::string_view text, bool first, std::string_view finish_reason) const;

  Options options_;
  std::string event_begin_;  // up to the choices
};

// "stop", "length".
std::string_view FinishReasonName(sequence::FinishReason reason);

}  // namespace tandem::router
