// Watches the processes of one host: `tandem serve` starts them through it and stops when one of
// them dies or the user says so.
//
//   Supervisor supervisor;                    // from here on SIGINT and SIGTERM arrive as events
//   supervisor.Start({...});
//   switch (supervisor.Wait(Deadline()).what) { case Supervisor::What::kChildEnded: ... }
//   supervisor.StopAll(std::chrono::seconds(20));
//
// Not thread-safe; the process's other threads must be started after it, so that they inherit its
// signal mask.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/base/scoped_fd.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "deploy/serve/child_process.h"

namespace tandem::deploy {

class Supervisor {
 public:
  enum class What { kTimeout, kStopSignal, kChildEnded, kReadable };
  struct Event {
    What what = What::kTimeout;
    const ChildProcess* child = nullptr;  // kChildEnded
    std::string how;                      // kChildEnded: "killed by signal 9 (Killed)"
  };

  // Blocks SIGINT and SIGTERM in the calling thread.
  Supervisor();
  ~Supervisor();  // kills what still runs

  Status Start(ChildProcess::Command command);

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
  struct Watched {
    std::unique_ptr<ChildProcess> child;
    bool reported = false;  // by Wait(), which tells of each end once
  };
  // Waits for children_[from…]; kills all at the deadline or on a stop signal.
  void AwaitEnds(std::size_t from, Deadline deadline);

  std::vector<Watched> children_;  // in the order of starting
  ScopedFd signals_;
};

}  // namespace tandem::deploy
