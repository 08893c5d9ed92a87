#include "deploy/bench/stream_reader.h"

#include <fmt/format.h>

#include <boost/json.hpp>

namespace tandem::deploy {
namespace {

namespace json = boost::json;
using client::RequestPool;

const json::value* FindIn(const json::object& object, std::string_view key) {
  return object.if_contains(json::string_view(key.data(), key.size()));
}

std::string_view StringIn(const json::object& object, std::string_view key) {
  const json::value* value = FindIn(object, key);
  const json::string* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string_view() : std::string_view(text->data(), text->size());
}

const json::object* ObjectIn(const json::object& object, std::string_view key) {
  const json::value* value = FindIn(object, key);
  return value == nullptr ? nullptr : value->if_object();
}

void TakeCount(const json::object& object, std::string_view key,
               std::optional<std::int64_t>& into) {
  const json::value* value = FindIn(object, key);
  if (value != nullptr && value->is_int64()) into = value->get_int64();
}

Outcome OutcomeOf(RequestPool::End end) {
  using End = RequestPool::End;
  switch (end) {
    case End::kComplete:
      return Outcome::kOk;
    case End::kRefused:
      return Outcome::kRefused;
    case End::kNoConnect:
      return Outcome::kNoConnect;
    case End::kReset:
      return Outcome::kReset;
    case End::kEndedEarly:
      return Outcome::kEndedEarly;
    case End::kTimeout:
      return Outcome::kTimeout;
    case End::kAborted:
      return Outcome::kCancelled;
    case End::kOther:
      break;
  }
  return Outcome::kBadStream;
}

// The message inside an error answer, or its beginning.
std::string ErrorText(std::string_view body) {
  boost::system::error_code bad;
  const json::value parsed = json::parse(json::string_view(body.data(), body.size()), bad);
  if (!bad && parsed.is_object()) {
    if (const json::object* error = ObjectIn(parsed.get_object(), "error")) {
      return std::string(StringIn(*error, "message"));
    }
  }
  return std::string(body.substr(0, 200));
}

}  // namespace

void StreamReader::Fail(Outcome outcome, std::string detail) {
  if (failed_) return;
  failed_ = true;
  result_.outcome = outcome;
  result_.detail = std::move(detail);
}

void StreamReader::OnStatus(int status) { result_.http_status = status; }

bool StreamReader::OnBody(std::string_view bytes, Time now) {
  if (result_.http_status != 200) {
    error_body_ += bytes.substr(0, kErrorBytesMax - error_body_.size());
    return true;
  }
  const Status fed =
      parser_.Feed(bytes, [this, now](std::string_view data) { OnEvent(data, now); });
  if (!fed.ok()) Fail(Outcome::kBadStream, std::string(FromAbsl(fed.message())));
  return result_.outcome != Outcome::kBadStream;
}

void StreamReader::OnEvent(std::string_view data, Time now) {
  if (done_) return Fail(Outcome::kAfterFinish, "an event after [DONE]");
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  alignas(std::max_align_t) unsigned char buffer[8192];  // most events need no allocation
  json::monotonic_resource memory(buffer, sizeof buffer);
  boost::system::error_code bad;
  const json::value event = json::parse(json::string_view(data.data(), data.size()), bad, &memory);
  if (bad || !event.is_object()) {
    return Fail(Outcome::kBadStream,
                fmt::format("an event is no JSON object: {}", data.substr(0, 200)));
  }
  OnJson(event.get_object(), now);
}

void StreamReader::OnJson(const json::object& event, Time now) {
  if (const json::value* error = FindIn(event, "error"); error != nullptr && !error->is_null()) {
    const json::object* fields = error->if_object();
    const bool after = !result_.finish_reason.empty();
    return Fail(after ? Outcome::kAfterFinish : Outcome::kErrorEvent,
                fmt::format("{}{}", after ? "error: " : "",
                            fields == nullptr ? "no reason given" : StringIn(*fields, "message")));
  }
  if (const json::object* usage = ObjectIn(event, "usage")) {
    TakeCount(*usage, "prompt_tokens", result_.prompt_tokens);
    TakeCount(*usage, "completion_tokens", result_.tokens);
  }
  if (const json::object* timings = ObjectIn(event, "timings")) {
    TakeCount(*timings, "attempts", result_.attempts);
    TakeCount(*timings, "placements", result_.placements);
  }
  const json::value* choices = FindIn(event, "choices");
  const json::array* array = choices == nullptr ? nullptr : choices->if_array();
  if (array == nullptr || array->empty()) return;
  if (const json::object* choice = array->front().if_object()) OnChoice(*choice, now);
}

void StreamReader::OnChoice(const json::object& choice, Time now) {
  const json::object* delta = ObjectIn(choice, "delta");
  const std::string_view text =
      delta == nullptr ? StringIn(choice, "text") : StringIn(*delta, "content");
  const std::string_view reason = StringIn(choice, "finish_reason");
  if (!result_.finish_reason.empty() && !(text.empty() && reason.empty())) {
    Fail(Outcome::kAfterFinish,
         text.empty() ? "a second finish_reason" : fmt::format("text: {}", text.substr(0, 200)));
  }
  if (!text.empty()) {
    result_.text += text;
    result_.text_times.push_back(now);
  }
  if (!reason.empty()) result_.finish_reason = reason;
}

StreamResult StreamReader::Finish(const RequestPool::Ended& ended, Time now) {
  result_.end = now;
  if (result_.http_status == 0) result_.http_status = ended.status;
  if (ended.end != RequestPool::End::kComplete) Fail(OutcomeOf(ended.end), ended.detail);
  if (result_.http_status != 200) {
    Fail(Outcome::kHttpStatus,
         fmt::format("HTTP {}: {}", result_.http_status, ErrorText(error_body_)));
  }
  if (!done_ && result_.finish_reason.empty()) {
    Fail(Outcome::kEndedEarly, "the body ended before [DONE]");
  }
  if (result_.finish_reason.empty()) Fail(Outcome::kNoFinish, "[DONE] without a finish_reason");
  if (!done_) Fail(Outcome::kEndedEarly, "finished, but no [DONE]");
  return std::move(result_);
}

}  // namespace tandem::deploy
