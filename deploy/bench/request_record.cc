#include "deploy/bench/request_record.h"

#include <fmt/format.h>

#include <array>

#include "common/base/random.h"

namespace tandem::deploy {
namespace {

constexpr std::array<std::string_view, kNumOutcomes> kOutcomeNames = {
    "ok",          "http_status",  "connection_refused", "no_connection",
    "reset",       "timeout",      "ended_early",        "no_finish_reason",
    "error_event", "after_finish", "bad_stream",         "cancelled"};

// FNV-1a, 64 bits, mixed once more.
std::uint64_t HashOf(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return Mix64(hash);
}

}  // namespace

std::string_view OutcomeName(Outcome outcome) {
  return kOutcomeNames[static_cast<std::size_t>(outcome)];
}

Duration RequestRecord::Tpot() const {
  if (tokens < 2 || !first || !last) return Duration::zero();
  return (*last - *first) / (tokens - 1);
}

RequestRecord MakeRecord(const StreamResult& result, Time start, Time planned, Time sent) {
  RequestRecord record;
  record.planned = planned - start;
  record.sent = sent - start;
  record.end = result.end - start;
  record.events = static_cast<std::int64_t>(result.text_times.size());
  record.usage = result.tokens.has_value();
  record.tokens = result.tokens.value_or(record.events);
  record.prompt_tokens = result.prompt_tokens.value_or(0);
  if (!result.text_times.empty()) {
    record.first = result.text_times.front() - start;
    record.last = result.text_times.back() - start;
  }
  for (std::size_t i = 0; i < result.text_times.size(); ++i) {
    const Time next = i + 1 < result.text_times.size() ? result.text_times[i + 1] : result.end;
    if (next - result.text_times[i] <= record.pause) continue;
    record.pause = next - result.text_times[i];
    record.pause_at = result.text_times[i] - start;
  }
  record.text_hash = fmt::format("{:016x}", HashOf(result.text));
  record.outcome = result.outcome;
  record.http_status = result.http_status;
  record.detail = result.detail;
  record.finish_reason = result.finish_reason;
  record.attempts = result.attempts;
  record.placements = result.placements;
  return record;
}

}  // namespace tandem::deploy
