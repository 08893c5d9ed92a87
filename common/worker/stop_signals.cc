#include "common/worker/stop_signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/log/log.h"

namespace tandem::worker {
namespace {

sigset_t Watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&set, signal);
  return set;
}

}  // namespace

void StopSignals::BlockSignals() {
  const sigset_t set = Watched();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

StatusOr<std::unique_ptr<StopSignals>> StopSignals::Watch(const net::Strand& strand, int parent_pid,
                                                          Events events) {
  std::unique_ptr<StopSignals> out(new StopSignals(std::move(events)));
  StopSignals* raw = out.get();
  const sigset_t set = Watched();
  out->signals_ = ScopedFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!out->signals_.valid()) {
    return Unavailable("cannot make a signalfd: {}", std::strerror(errno));
  }
  out->signal_watch_.emplace(strand, out->signals_.get(), [raw] { raw->OnSignal(); });
  if (parent_pid > 0) {
    out->parent_ = ScopedFd(static_cast<int>(::syscall(SYS_pidfd_open, parent_pid, 0)));
    if (!out->parent_.valid()) {
      return Unavailable("--parent-pid {}: {}", parent_pid, std::strerror(errno));
    }
    out->parent_watch_.emplace(strand, out->parent_.get(), [raw] {
      raw->parent_watch_.reset();
      raw->Stop("parent ended");
    });
  }
  return out;
}

void StopSignals::OnSignal() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGUSR1) {
      events_.report();
    } else {
      Stop(info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
    }
  }
}

void StopSignals::Stop(std::string_view why) {
  log::Info(stopping_ ? "node.hurry" : "node.stop", "why=\"{}\"", why);
  if (std::exchange(stopping_, true)) {
    events_.hurry();
  } else {
    events_.stop();
  }
}

}  // namespace tandem::worker
