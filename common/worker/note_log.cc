#include "common/worker/note_log.h"

#include "common/log/log.h"

namespace tandem::worker {

void LogNote(const handoff::NodeNote& note, std::string_view peer) {
  using What = handoff::NodeNote::What;
  const auto& key = note.key;
  if (peer.empty()) peer = "-";
  switch (note.what) {
    case What::kPlacedAgain:
      log::Info("node.placed_again", "request={} attempt={} placement={} peer={} after=\"{}\"",
                key.request.number, key.attempt, key.placement, peer,
                handoff::ToString(note.reason));
      break;
    case What::kLeaseExpired:
      log::Warning("node.lease_expired", "request={} attempt={} placement={} peer={}",
                   key.request.number, key.attempt, key.placement, peer);
      break;
    case What::kReserveRefused:
      log::Info("node.reserve_refused", "request={} attempt={} placement={} peer={} reason=\"{}\"",
                key.request.number, key.attempt, key.placement, peer,
                handoff::ToString(note.reason));
      break;
    case What::kQuarantined:
      log::Info("node.quarantined", "request={} attempt={} placement={} peer={} reason=\"{}\"",
                key.request.number, key.attempt, key.placement, peer,
                handoff::ToString(note.reason));
      break;
    case What::kStaleMessage:
      log::Info("node.stale_message", "message={} request={} attempt={} placement={} peer={}",
                note.message, key.request.number, key.attempt, key.placement, peer);
      break;
  }
}

}  // namespace tandem::worker
