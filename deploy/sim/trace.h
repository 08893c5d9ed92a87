// How a message reads in a trace: its name and whom it concerns.
#pragma once

#include <string>

#include "common/handoff/messages.h"

namespace tandem::sim {

// "Reserve 7.1.2 tokens=33": request number, attempt, placement.
std::string Describe(const handoff::Message& message);
std::string Describe(const handoff::PlacementKey& key);

}  // namespace tandem::sim
