// What the two node programs do around their service: flags, signals, loading, the port file,
// draining, the exit status.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/config/program_options.h"
#include "common/net/endpoint.h"
#include "common/scheduler/step_time.h"
#include "common/worker/loaded_model.h"
#include "common/worker/node_flags.h"

namespace tandem::worker {

// Called once each, on some thread.
struct DrainEvents {
  std::function<void()> begun;    // by BeginDrain or by a router's Drain
  std::function<void()> drained;  // nothing is left to do
};

// A running node, as its program sees it. Called by one thread.
class NodeService {
 public:
  // Closes all connections, which cancels what runs, and ends the threads.
  virtual ~NodeService() = default;
  virtual const net::HostPort& address() const = 0;
  // Takes nothing new; what has not ended within `budget` is moved. A further call can only shorten
  // the budget.
  virtual void BeginDrain(Duration budget) = 0;
  // Replaces those of an earlier call.
  virtual void WatchDrain(DrainEvents events) = 0;
  virtual scheduler::StepProgress Progress() = 0;
  // The node's numbers as "name=value …", for a log line.
  virtual std::string Report() = 0;
};

struct NodeProgram {
  std::string name;                                        // "tandem-prefill"
  std::string purpose;                                     // for --help
  NodeFlags flags;                                         // with the program's defaults
  std::function<void(config::ProgramOptions&)> add_flags;  // the program's own
  // `model` outlives what is returned.
  std::function<StatusOr<std::unique_ptr<NodeService>>(const LoadedModel& model,
                                                       const NodeFlags& flags)>
      start;
};

// Runs until SIGINT, SIGTERM or the parent's end; then drains. Returns the exit status: 0 after an
// orderly end, 1 when something failed, 2 for flags that are wrong.
int RunNode(int argc, char** argv, NodeProgram program);

}  // namespace tandem::worker
