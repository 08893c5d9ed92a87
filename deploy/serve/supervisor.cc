#include "deploy/serve/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <fstream>

#include "common/base/check.h"

namespace tandem::deploy {
namespace {

constexpr Duration kFilePoll = std::chrono::milliseconds(20);

int PollTimeoutMs(Deadline deadline) {
  if (deadline.at() == kNever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.Remaining(SteadyNow()));
  return static_cast<int>(std::min<std::int64_t>(left.count(), 3'600'000));
}

}  // namespace

Supervisor::Supervisor() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  TANDEM_CHECK(::pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signals_ = ScopedFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  TANDEM_CHECK(signals_.valid());
}

Supervisor::~Supervisor() = default;

Status Supervisor::Start(ChildProcess::Command command) {
  TANDEM_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(std::move(command)));
  children_.push_back({std::make_unique<ChildProcess>(std::move(child))});
  return OkStatus();
}

Supervisor::Event Supervisor::Wait(Deadline deadline, int fd) {
  std::vector<pollfd> fds;
  while (true) {
    signalfd_siginfo info;
    if (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      return {What::kStopSignal, nullptr, {}};
    }
    fds = {{signals_.get(), POLLIN, 0}, {fd, POLLIN, 0}};  // poll ignores -1
    for (Watched& watched : children_) {
      if (watched.reported) continue;
      if (auto how = watched.child->Ended()) {
        watched.reported = true;
        return {What::kChildEnded, watched.child.get(), *how};
      }
      fds.push_back({watched.child->pidfd(), POLLIN, 0});
    }
    if (::poll(fds.data(), fds.size(), PollTimeoutMs(deadline)) > 0 && fds[1].revents != 0) {
      return {What::kReadable, nullptr, {}};
    }
    if (deadline.Passed(SteadyNow())) return {};
  }
}

StatusOr<std::string> Supervisor::AwaitFirstLine(const std::filesystem::path& file,
                                                 Deadline deadline) {
  while (true) {
    std::ifstream in(file);
    if (std::string line; std::getline(in, line) && !in.eof()) return line;
    const Time now = SteadyNow();
    if (deadline.Passed(now)) return DeadlineExceeded("{} did not appear in time", file.string());
    Event event = Wait(Deadline(std::min(now + kFilePoll, deadline.at())));
    if (event.what == What::kStopSignal) return Cancelled("stopped by the user");
    if (event.what == What::kChildEnded) return Report(event);
  }
}

Status Supervisor::StopAll(Duration patience) {
  const Deadline deadline = Deadline::After(SteadyNow(), patience);
  std::size_t kept = children_.empty() ? 0 : children_.size() - 1;
  while (true) {
    for (std::size_t i = kept; i < children_.size(); ++i) children_[i].child->Signal(SIGTERM);
    AwaitEnds(kept, deadline);
    if (kept == 0) break;
    kept = 0;
  }
  std::string bad;
  for (auto& [child, reported] : children_) {
    if (!child->ended_well()) {
      bad += fmt::format("{}{}: {}", bad.empty() ? "" : "; ", child->name(), *child->Ended());
    }
  }
  children_.clear();
  if (!bad.empty()) return Unavailable("did not stop cleanly: {}", bad);
  return OkStatus();
}

void Supervisor::AwaitEnds(std::size_t from, Deadline deadline) {
  const auto running = [&] {
    bool any = false;
    for (std::size_t i = from; i < children_.size(); ++i) any |= !children_[i].child->Ended();
    return any;
  };
  while (running()) {
    const Event event = Wait(deadline);
    if (event.what != What::kTimeout && event.what != What::kStopSignal) continue;
    for (Watched& watched : children_) watched.child->Signal(SIGKILL);
    while (running()) Wait(Deadline::After(SteadyNow(), std::chrono::seconds(1)));
  }
}

Status Supervisor::Report(const Event& event) {
  TANDEM_CHECK(event.child != nullptr);
  const std::string tail = event.child->LogTail(5);
  return Unavailable("{} (pid {}) ended: {}; its log is {}{}{}", event.child->name(),
                     event.child->pid(), event.how, event.child->log().string(),
                     tail.empty() ? "" : "\n", tail);
}

}  // namespace tandem::deploy
