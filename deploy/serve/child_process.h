// One process of the local cluster: started with its output in a log file, watched through a pidfd.
//
// The child runs in a process group of its own (the terminal's Ctrl-C reaches the supervisor alone)
// and gets SIGTERM when the supervisor dies. Destroying a ChildProcess kills and reaps what still
// runs. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/base/scoped_fd.h"
#include "common/base/status.h"

namespace tandem::deploy {

class ChildProcess {
 public:
  struct Command {
    std::string name;                    // "prefill-0", for messages
    std::vector<std::string> arguments;  // arguments[0]: path of the program
    std::filesystem::path log;           // stdout and stderr
    bool append = false;                 // to the log, which is truncated otherwise
    // Adds --progress-fd FD: what the child writes there comes out of progress_fd().
    bool tells_progress = false;
  };

  // Errors: Unavailable when the log cannot be written or the program cannot be started.
  static StatusOr<ChildProcess> Start(Command command);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  const std::string& name() const { return command_.name; }
  const std::filesystem::path& log() const { return command_.log; }
  pid_t pid() const { return pid_; }
  // Becomes readable when the process ends.
  int pidfd() const { return pidfd_.get(); }
  // -1: does not tell of its progress. Does not block.
  int progress_fd() const { return progress_.get(); }
  // Whether a signal has stopped it, as SIGSTOP does.
  bool Stopped() const;

  void Signal(int signal);
  // How it ended ("exit status 3", "killed by signal 9"), once it has; reaps it.
  std::optional<std::string> Ended();
  bool ended_well() const { return ended_ && wait_status_ == 0; }
  // The last lines of its log, for a report.
  std::string LogTail(int lines) const;

 private:
  ChildProcess(Command command, pid_t pid, ScopedFd pidfd, ScopedFd progress);

  Command command_;
  pid_t pid_ = -1;
  ScopedFd pidfd_;
  ScopedFd progress_;  // the pipe's end to read
  bool ended_ = false;
  int wait_status_ = 0;
};

}  // namespace tandem::deploy
