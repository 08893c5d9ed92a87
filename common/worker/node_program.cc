#include "common/worker/node_program.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <deque>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/progress_line.h"
#include "common/log/log.h"
#include "common/net/io_threads.h"
#include "common/net/port_file.h"
#include "common/worker/stop_signals.h"

namespace tandem::worker {
namespace {

enum class Event { kStop, kHurry, kReport, kDraining, kDrained };

// What the main thread waits for. Thread-safe.
class EventQueue {
 public:
  void Push(Event event) {
    MutexLock lock(mutex_);
    events_.push_back(event);
  }
  // Nothing when `deadline` came first.
  std::optional<Event> Wait(Deadline deadline) {
    MutexLock lock(mutex_);
    if (!mutex_.AwaitUntil([this] { return !events_.empty(); }, deadline.at())) return std::nullopt;
    const Event event = events_.front();
    events_.pop_front();
    return event;
  }

 private:
  Mutex mutex_;
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);
};

// Until the node has drained, at a signal's or a router's wish.
void Attend(NodeService& service, EventQueue& events, const NodeFlags& flags) {
  bool draining = false;
  Time tick = SteadyNow();
  while (true) {
    const std::optional<Event> event = events.Wait(Deadline(tick));
    if (!event.has_value()) {  // asks the strand: where that hangs, nothing is written
      const scheduler::StepProgress step = service.Progress();
      ProgressLine{step.number, step.running_for, step.stuck_after}.Write(flags.progress_fd);
      if (draining) log::Info("node.draining", "{}", service.Report());
      tick = SteadyNow() + ProgressLine::kEvery;
      continue;
    }
    switch (*event) {
      case Event::kReport:
        log::Info("node.report", "{}", service.Report());
        break;
      case Event::kStop:
        service.BeginDrain(flags.drain_timeout);
        break;
      case Event::kHurry:
        service.BeginDrain(Duration(0));
        break;
      case Event::kDraining:
        draining = true;
        log::Info("node.draining", "{}", service.Report());
        break;
      case Event::kDrained:
        return;
    }
  }
}

Status Serve(NodeProgram& program, EventQueue& events, std::atomic<bool>& loading) {
  const NodeFlags& flags = program.flags;
  TANDEM_ASSIGN_OR_RETURN(const LoadedModel model,
                          LoadModel({.path = flags.model,
                                     .numerics = flags.numerics,
                                     .threads = flags.threads,
                                     .weights_cache = flags.weights_cache}));
  loading = false;  // from here on there is something to release
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<NodeService> service, program.start(model, flags));
  TANDEM_RETURN_IF_ERROR(
      Annotate(net::WritePortFile(flags.port_file, service->address()), "--port-file"));
  log::Info("node.listening", "address={} name={}", service->address().ToString(), flags.name);
  service->WatchDrain({.begun = [&events] { events.Push(Event::kDraining); },
                       .drained = [&events] { events.Push(Event::kDrained); }});
  Attend(*service, events, flags);
  log::Info("node.drained", "{}", service->Report());
  service.reset();
  if (!flags.port_file.empty()) ::unlink(flags.port_file.c_str());
  log::Info("node.stopped");
  return OkStatus();
}

int Complain(const NodeProgram& program, const Status& status, int exit_status) {
  std::fprintf(stderr, "%s: %s\n", program.name.c_str(),
               std::string(FromAbsl(status.message())).c_str());
  return exit_status;
}

}  // namespace

int RunNode(int argc, char** argv, NodeProgram program) {
  StopSignals::BlockSignals();
  config::ProgramOptions options(program.name, program.purpose);
  program.flags.AddTo(options);
  program.add_flags(options);
  const auto outcome = options.Parse(argc, argv);
  if (!outcome.ok()) return Complain(program, outcome.status(), 2);
  if (*outcome == config::ProgramOptions::Outcome::kShown) return 0;
  if (Status status = program.flags.Validate(); !status.ok()) return Complain(program, status, 2);
  if (Status status = log::SetLevel(program.flags.log_level); !status.ok()) {
    return Complain(program, status, 2);
  }

  EventQueue events;
  std::atomic<bool> loading{true};
  net::IoThreads io(1);
  const net::Strand strand(io);
  StopSignals::Events on;
  on.stop = [&] {
    // Nothing is shared yet: loading need not be waited for.
    if (loading) std::_Exit(0);
    events.Push(Event::kStop);
  };
  on.hurry = [&] { events.Push(Event::kHurry); };
  on.report = [&] { events.Push(Event::kReport); };
  auto signals = StopSignals::Watch(strand, program.flags.parent_pid, std::move(on));
  if (!signals.ok()) return Complain(program, signals.status(), 1);

  const Status status = Serve(program, events, loading);
  io.Stop();
  return status.ok() ? 0 : Complain(program, status, 1);
}

}  // namespace tandem::worker
