// Logs what the node cores note, one line each; what a busy node notes all the time, at debug: a
// counter of its statistics tells how often.
#pragma once

#include <string_view>

#include "common/handoff/node_note.h"

namespace tandem::worker {

// `peer`: the name of the note's peer; empty where it is not known any more.
void LogNote(const handoff::NodeNote& note, std::string_view peer);

}  // namespace tandem::worker
