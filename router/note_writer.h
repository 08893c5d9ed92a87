// Shows the core's notes: one log line and one metric for each fail-over, new placement, stale
// message, difference, and change of a node. Lives on the strand.
#pragma once

#include <string>
#include <string_view>

#include "common/metrics/registry.h"
#include "router/core/notes.h"

namespace tandem::router {

// Of a node, for people: "prefill" or "decode".
std::string_view RoleName(handoff::Role role);

class NoteWriter {
 public:
  // `registry` must outlive it.
  explicit NoteWriter(metrics::Registry& registry);

  void Write(const Note& note);

 private:
  void Show(const FailedOver& note);
  void Show(const PlacedAgain& note);
  void Show(const StaleMessage& note);
  void Show(const StreamDiffers& note);
  void Show(const NodeChanged& note);
  // Labels come from fixed sets: reasons, types of messages, changes.
  void Count(const char* name, const char* help, const char* label, std::string_view value);

  metrics::Registry& registry_;
  metrics::Histogram& pause_;
};

}  // namespace tandem::router
