// Watches the processes of one host: `tandem serve` starts them through it, has it start again what
// died, and stops when the user says so or when one cannot be kept alive.
//
//   Supervisor supervisor(options);           // from here on SIGINT and SIGTERM arrive as events
//   supervisor.Start({...});                  // a child's end is an event now …
//   supervisor.KeepAlive();                   // … and from here on only when it is given up
//   switch (supervisor.Wait(Deadline()).what) { case Supervisor::What::kChildEnded: ... }
//   supervisor.StopAll(std::chrono::seconds(20));
//
// When to start again and what counts as stuck: RestartPolicy, StuckWatch. Not thread-safe; the
// process's other threads must be started after it, so that they inherit its signal mask.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/scoped_fd.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "deploy/serve/child_process.h"
#include "deploy/serve/restart_policy.h"
#include "deploy/serve/stuck_watch.h"

namespace tandem::deploy {

class Supervisor {
 public:
  struct Options {
    RestartPolicy::Options restart;
    // Stuck or stopped for this long: killed. 0: never.
    Duration stuck_after = std::chrono::seconds(60);
    // A line for the user about each restart and kill. Not set: silent.
    std::function<void(const std::string&)> say;
  };
  enum class What { kTimeout, kStopSignal, kChildEnded, kReadable };
  struct Event {
    What what = What::kTimeout;
    const ChildProcess* child = nullptr;  // kChildEnded
    std::string how;                      // kChildEnded: "killed by signal 9 (Killed)"
  };

  // Blocks SIGINT and SIGTERM in the calling thread.
  explicit Supervisor(Options options);
  ~Supervisor();  // kills what still runs

  Status Start(ChildProcess::Command command);
  // What the next life of the child `name` is started with. Requires: it was started.
  void SetArguments(const std::string& name, std::vector<std::string> arguments);
  // From now on children that end are started again, those that are stuck are killed, and the end
  // of one is an event only when it is given up.
  void KeepAlive() { keeping_alive_ = true; }

  // The first of: a stop signal, a child's end, `fd` readable (-1: none), the deadline.
  Event Wait(Deadline deadline, int fd = -1);

  // Waits until the file exists and returns its first line.
  // Errors: Unavailable when a child ends first (its log's last lines are in the message),
  // Cancelled on a stop signal, DeadlineExceeded.
  StatusOr<std::string> AwaitFirstLine(const std::filesystem::path& file, Deadline deadline);

  // SIGTERM to the child started last (it serves the clients and lets go of them); when that has
  // ended, to all others. What is still there after `patience` in all is killed; a second stop
  // signal kills at once. Errors: Unavailable naming the children that did not exit with status 0.
  Status StopAll(Duration patience);

  // "decode-0 (pid 17) ended: killed by signal 9", with its log's path and last lines.
  static Status Report(const Event& event);

 private:
  struct Watched;
  // Waits for children_[from…]; kills all at the deadline or on a stop signal.
  void AwaitEnds(std::size_t from, Deadline deadline);
  // Looks at every child: ends, restarts that are due, progress, stuck ones. An event, or nothing.
  std::optional<Event> Look(Time now);
  std::optional<Event> OnEnd(Watched& watched, Time now, std::string how);
  std::optional<Event> StartAgain(Watched& watched, Time now);
  void ReadProgress(Watched& watched, Time now);
  Time NextLook(Time now) const;
  void Say(const std::string& line) const;

  const Options options_;
  std::vector<std::unique_ptr<Watched>> children_;  // in the order of first starts
  bool keeping_alive_ = false;
  ScopedFd signals_;
};

}  // namespace tandem::deploy
