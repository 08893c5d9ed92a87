#include "deploy/serve/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>

namespace tandem::deploy {
namespace {

// Runs in the forked child: only async-signal-safe calls. Writes errno to `report` when it cannot
// start.
[[noreturn]] void BecomeProgram(char* const* arguments, int log, int report, int progress,
                                pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(0);  // the supervisor died before prctl
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  if (progress >= 0) ::fcntl(progress, F_SETFD, 0);  // kept by the program
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execv(arguments[0], arguments);
  const int error = errno;
  [[maybe_unused]] ssize_t written = ::write(report, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

StatusOr<ChildProcess> ChildProcess::Start(Command command) {
  // Appending: two lives never write over one another.
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (command.append ? 0 : O_TRUNC);
  ScopedFd log(::open(command.log.c_str(), flags, 0600));
  if (!log.valid()) {
    return Unavailable("{}: cannot write its log {}: {}", command.name, command.log.string(),
                       std::strerror(errno));
  }
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0) {
    return Unavailable("{}: pipe: {}", command.name, std::strerror(errno));
  }
  ScopedFd report_out(pipe_fds[0]);
  ScopedFd report_in(pipe_fds[1]);
  ScopedFd progress_out, progress_in;
  std::vector<std::string> words = command.arguments;
  if (command.tells_progress) {
    if (::pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) != 0) {
      return Unavailable("{}: pipe: {}", command.name, std::strerror(errno));
    }
    progress_out = ScopedFd(pipe_fds[0]);
    progress_in = ScopedFd(pipe_fds[1]);
    words.insert(words.end(), {"--progress-fd", std::to_string(progress_in.get())});
  }
  std::vector<char*> arguments;
  for (std::string& argument : words) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Unavailable("{}: fork: {}", command.name, std::strerror(errno));
  if (pid == 0) {
    BecomeProgram(arguments.data(), log.get(), report_in.get(), progress_in.get(), parent);
  }
  report_in.Reset();
  ScopedFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  int error = 0;
  ssize_t got;
  do {
    got = ::read(report_out.get(), &error, sizeof error);  // ends at exec or with an errno
  } while (got < 0 && errno == EINTR);
  ChildProcess child(std::move(command), pid, std::move(pidfd), std::move(progress_out));
  if (got > 0) {
    return Unavailable("{}: cannot start {}: {}", child.name(), child.command_.arguments[0],
                       std::strerror(error));
  }
  if (!child.pidfd_.valid()) {
    return Unavailable("{}: pidfd_open failed; Tandem needs Linux 5.3 or newer", child.name());
  }
  return child;
}

ChildProcess::ChildProcess(Command command, pid_t pid, ScopedFd pidfd, ScopedFd progress)
    : command_(std::move(command)),
      pid_(pid),
      pidfd_(std::move(pidfd)),
      progress_(std::move(progress)) {}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : command_(std::move(other.command_)),
      pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      progress_(std::move(other.progress_)),
      ended_(other.ended_),
      wait_status_(other.wait_status_) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || ended_) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ChildProcess::Signal(int signal) {
  if (pid_ >= 0 && !ended_) ::kill(pid_, signal);
}

std::optional<std::string> ChildProcess::Ended() {
  if (!ended_) {
    const pid_t got = ::waitpid(pid_, &wait_status_, WNOHANG);
    if (got != pid_) return std::nullopt;
    ended_ = true;
  }
  if (WIFSIGNALED(wait_status_)) {
    return fmt::format("killed by signal {} ({})", WTERMSIG(wait_status_),
                       ::strsignal(WTERMSIG(wait_status_)));
  }
  return fmt::format("exit status {}", WEXITSTATUS(wait_status_));
}

bool ChildProcess::Stopped() const {
  // "PID (NAME) STATE …"; the name may hold anything.
  std::ifstream in(fmt::format("/proc/{}/stat", pid_));
  std::string line;
  std::getline(in, line);
  const std::size_t end = line.rfind(')');
  return !ended_ && end != std::string::npos && end + 2 < line.size() && line[end + 2] == 'T';
}

std::string ChildProcess::LogTail(int lines) const {
  std::ifstream in(command_.log);
  std::deque<std::string> tail;
  for (std::string line; std::getline(in, line);) {
    tail.push_back(std::move(line));
    if (static_cast<int>(tail.size()) > lines) tail.pop_front();
  }
  std::string out;
  for (const std::string& line : tail) out += "    " + line + "\n";
  return out;
}

}  // namespace tandem::deploy
