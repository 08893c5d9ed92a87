// What became of one request of a run. Times count from the run's start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/time.h"

namespace tandem::deploy {

enum class Outcome {
  kOk,
  kHttpStatus,   // an answer other than 200
  kRefused,      // nobody listens there
  kNoConnect,    // no connection for another reason
  kReset,        // the connection broke
  kTimeout,      // no answer, or no end of it, in time
  kEndedEarly,   // the connection closed, or the body ended, before [DONE]
  kNoFinish,     // a whole stream without a finish_reason
  kErrorEvent,   // an error inside the stream
  kAfterFinish,  // text, an error or another finish_reason after the finish_reason
  kBadStream,    // not server-sent events of JSON
  kCancelled,    // by us: the run was interrupted
};
inline constexpr int kNumOutcomes = 12;

// "ok", "http_status", "connection_refused", …: as reports name it.
std::string_view OutcomeName(Outcome outcome);

// One stream as its reader saw it.
struct StreamResult {
  Outcome outcome = Outcome::kOk;
  int http_status = 0;  // 0: no answer
  std::string detail;   // of what went wrong
  std::string text;
  std::string finish_reason;
  std::vector<Time> text_times;  // when each event with text was read
  Time end{};
  std::optional<std::int64_t> prompt_tokens;  // by the server's usage
  std::optional<std::int64_t> tokens;
  std::optional<std::int64_t> attempts;  // by the server's timings
  std::optional<std::int64_t> placements;
};

struct RequestRecord {
  std::int64_t index = 0;  // of the run
  std::int64_t item = 0;   // of the prompts: the file's line, from 0
  Duration planned{};
  Duration sent{};
  std::optional<Duration> first;  // text
  std::optional<Duration> last;   // text
  Duration end{};
  Duration pause{};     // the longest gap between texts, and from the last to the end
  Duration pause_at{};  // when it began
  std::int64_t prompt_tokens = 0;
  std::int64_t tokens = 0;  // by usage; without it, events with text
  std::int64_t events = 0;  // with text
  bool usage = false;       // the server told it
  std::string text_hash;    // 16 hexadecimal digits
  Outcome outcome = Outcome::kOk;
  int http_status = 0;
  std::string detail;
  std::string finish_reason;
  std::string difference;  // to what was expected; empty: none, or nothing was expected
  std::optional<std::int64_t> attempts;
  std::optional<std::int64_t> placements;

  // From the planned time, so that a late send never flatters the server.
  Duration Ttft() const { return first.value_or(planned) - planned; }
  Duration EndToEnd() const { return end - planned; }
  // The mean gap between tokens, the first excluded; zero for fewer than two tokens.
  Duration Tpot() const;
};

// `result`'s text and counts against `start`, the run's start.
RequestRecord MakeRecord(const StreamResult& result, Time start, Time planned, Time sent);

}  // namespace tandem::deploy
