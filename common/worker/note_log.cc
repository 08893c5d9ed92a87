#include "common/worker/note_log.h"

#include <string>

#include "common/log/log.h"

namespace tandem::worker {
namespace {

using What = handoff::NodeNote::What;

struct Line {
  log::Level level;
  std::string_view event;
};

Line LineOf(const handoff::NodeNote& note) {
  switch (note.what) {
    case What::kPlacedAgain:
      return {log::Level::kInfo, "node.placed_again"};
    case What::kLeaseExpired:
      return {log::Level::kWarning, "node.lease_expired"};
    case What::kReserveRefused: {
      // A full node under load refuses many times a second; its counter tells how often.
      const bool full = note.reason == handoff::Reason::kFull;
      return {full ? log::Level::kDebug : log::Level::kInfo, "node.reserve_refused"};
    }
    case What::kQuarantined:
      return {log::Level::kInfo, "node.quarantined"};
    case What::kStaleMessage:
      return {log::Level::kInfo, "node.stale_message"};
  }
  return {log::Level::kInfo, "node.note"};
}

}  // namespace

void LogNote(const handoff::NodeNote& note, std::string_view peer) {
  const Line line = LineOf(note);
  if (!log::Enabled(line.level)) return;
  std::string fields =
      fmt::format("request={} attempt={} placement={} peer={}", note.key.request.number,
                  note.key.attempt, note.key.placement, peer.empty() ? "-" : peer);
  if (note.reason != handoff::Reason::kNone) {
    fields += fmt::format(" reason=\"{}\"", handoff::ToString(note.reason));
  }
  if (!note.message.empty()) fields += fmt::format(" message={}", note.message);
  log::Write(line.level, line.event, fields);
}

}  // namespace tandem::worker
