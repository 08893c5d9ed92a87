#include "router/note_writer.h"

#include <variant>

#include "common/log/log.h"

namespace tandem::router {
namespace {

std::string_view WhatName(NodeChanged::What what) {
  switch (what) {
    case NodeChanged::What::kConnected:
      return "connected";
    case NodeChanged::What::kLost:
      return "lost";
    case NodeChanged::What::kDraining:
      return "draining";
    case NodeChanged::What::kStuck:
      return "stuck";
    case NodeChanged::What::kMovesAgain:
      return "moves_again";
  }
  return "unknown";
}

}  // namespace

std::string_view RoleName(handoff::Role role) {
  return role == handoff::Role::kPrefill ? "prefill" : "decode";
}

NoteWriter::NoteWriter(metrics::Registry& registry)
    : registry_(registry),
      pause_(registry.AddHistogram("tandem_router_failover_pause_seconds",
                                   "A stream's last position before a fail-over to its next one.",
                                   metrics::SecondsBounds())) {}

void NoteWriter::Write(const Note& note) {
  std::visit([this](const auto& n) { Show(n); }, note);
}

void NoteWriter::Count(const char* name, const char* help, const char* label,
                       std::string_view value) {
  registry_.AddCounter(name, help, {{label, std::string(value)}}).Increment();
}

void NoteWriter::Show(const FailedOver& note) {
  log::Warning("router.failover",
               "request={} attempt={} reason=\"{}\" from={} to_prefill={} to_decode={} "
               "delivered={} pause_ms={:.1f} resumed={}",
               note.request.number, note.attempt, note.reason, note.from, note.to_prefill,
               note.to_decode.empty() ? "-" : note.to_decode, note.delivered, ToMillis(note.pause),
               note.resumed);
  Count("tandem_router_failovers_total", "New attempts, by why the one before ended.", "reason",
        note.reason);
  if (note.resumed) pause_.Observe(ToSeconds(note.pause));
}

void NoteWriter::Show(const PlacedAgain& note) {
  log::Info("router.placed_again", "request={} attempt={} placement={} from={} to={}",
            note.key.request.number, note.key.attempt, note.key.placement,
            note.from.empty() ? "-" : note.from, note.to);
}

void NoteWriter::Show(const StaleMessage& note) {
  // What was on its way when its request ended is no news.
  const auto level = note.ended ? log::Level::kDebug : log::Level::kInfo;
  if (log::Enabled(level)) {
    log::Write(
        level, "router.stale",
        fmt::format("request={} message={} node={}", note.request.number, note.message, note.node));
  }
  Count("tandem_router_stale_total", "Messages of older tries, by type.", "message", note.message);
}

void NoteWriter::Show(const StreamDiffers& note) {
  log::Error("router.stream.differs",
             "request={} node={} positions={}: tokens that came again are others",
             note.request.number, note.node, note.positions);
}

void NoteWriter::Show(const NodeChanged& note) {
  const std::string_view what = WhatName(note.what);
  Count("tandem_router_node_changes_total", "Changes of nodes.", "change", what);
  switch (note.what) {
    case NodeChanged::What::kConnected:
      return;  // the connection's own line says more
    case NodeChanged::What::kLost:
      return log::Warning("router.node.gone", "name={} role={} how={} moved_requests={}", note.node,
                          RoleName(note.role), note.reason, note.requests);
    case NodeChanged::What::kStuck:
      return log::Error("router.node.stuck", "name={} role={} step_s={:.1f} moved_requests={}",
                        note.node, RoleName(note.role), ToSeconds(note.step_running),
                        note.requests);
    case NodeChanged::What::kDraining:
    case NodeChanged::What::kMovesAgain:
      return log::Info(note.what == NodeChanged::What::kDraining ? "router.node.draining"
                                                                 : "router.node.moves_again",
                       "name={} role={}", note.node, RoleName(note.role));
  }
}

}  // namespace tandem::router
