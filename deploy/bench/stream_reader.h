// Reads one streamed answer of an OpenAI-compatible server and says what became of it.
//
//   reading ──finish_reason──► finished ──[DONE]──► done
//      └─────── error event, bad JSON, text after the finish: failed (the first failure stays) ─┘
//
// Pure: bytes and times in, a StreamResult out. Not thread-safe.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "common/base/time.h"
#include "common/client/request_pool.h"
#include "common/client/sse_parser.h"
#include "deploy/bench/request_record.h"

namespace tandem::deploy {

class StreamReader {
 public:
  // Longer bodies of errors are cut.
  static constexpr std::size_t kErrorBytesMax = 4096;

  void OnStatus(int status);
  // `now`: when the bytes were read. False: nothing that follows can matter.
  bool OnBody(std::string_view bytes, Time now);
  // The stream's whole story. Called once, last.
  StreamResult Finish(const client::RequestPool::Ended& ended, Time now);

  // Events with text so far.
  std::int64_t num_events() const { return static_cast<std::int64_t>(result_.text_times.size()); }

 private:
  void OnEvent(std::string_view data, Time now);
  void OnJson(const boost::json::object& event, Time now);
  void OnChoice(const boost::json::object& choice, Time now);
  void Fail(Outcome outcome, std::string detail);

  client::SseParser parser_;
  StreamResult result_;
  std::string error_body_;  // of an answer other than 200
  bool done_ = false;       // [DONE] came
  bool failed_ = false;
};

}  // namespace tandem::deploy
