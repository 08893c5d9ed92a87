// Where sources and sinks of one process find each other without a network.
#pragma once

#include <memory>

namespace tandem::transfer::loopback {

class Hub;
std::shared_ptr<Hub> MakeHub();

}  // namespace tandem::transfer::loopback
