#include "deploy/serve/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "common/base/check.h"
#include "common/base/progress_line.h"

namespace tandem::deploy {
namespace {

constexpr Duration kFilePoll = std::chrono::milliseconds(20);

int PollTimeoutMs(Deadline deadline) {
  if (deadline.at() == kNever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.Remaining(SteadyNow()));
  return static_cast<int>(std::min<std::int64_t>(left.count(), 3'600'000));
}

}  // namespace

struct Supervisor::Watched {
  Watched(const Options& options, ChildProcess::Command first, std::uint64_t seed)
      : command(std::move(first)), policy(options.restart, seed), stuck(options.stuck_after) {}

  ChildProcess::Command command;        // of the next life
  std::unique_ptr<ChildProcess> child;  // the last one
  RestartPolicy policy;
  StuckWatch stuck;
  bool reported = false;  // its end was seen
  bool left = false;      // it ended well and is not wanted back
  std::optional<Time> restart_at;
};

Supervisor::Supervisor(Options options) : options_(std::move(options)) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  TANDEM_CHECK(::pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signals_ = ScopedFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  TANDEM_CHECK(signals_.valid());
}

Supervisor::~Supervisor() = default;

void Supervisor::Say(const std::string& line) const {
  if (options_.say) options_.say(line);
}

Status Supervisor::Start(ChildProcess::Command command) {
  auto watched = std::make_unique<Watched>(
      options_, command, static_cast<std::uint64_t>(::getpid()) << 8 | children_.size());
  TANDEM_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(std::move(command)));
  watched->child = std::make_unique<ChildProcess>(std::move(child));
  watched->command.append = true;
  if (!watched->command.tells_progress) watched->policy.Ready(SteadyNow());
  children_.push_back(std::move(watched));
  return OkStatus();
}

void Supervisor::SetArguments(const std::string& name, std::vector<std::string> arguments) {
  auto it = std::find_if(children_.begin(), children_.end(),
                         [&](const auto& watched) { return watched->command.name == name; });
  TANDEM_CHECK(it != children_.end());
  (*it)->command.arguments = std::move(arguments);
}

Supervisor::Event Supervisor::Wait(Deadline deadline, int fd) {
  std::vector<pollfd> fds;
  while (true) {
    signalfd_siginfo info;
    if (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      return {What::kStopSignal, nullptr, {}};
    }
    Time now = SteadyNow();
    if (auto event = Look(now)) return *std::move(event);
    fds = {{signals_.get(), POLLIN, 0}, {fd, POLLIN, 0}};  // poll ignores -1
    for (const auto& watched : children_) {
      if (!watched->reported) fds.push_back({watched->child->pidfd(), POLLIN, 0});
    }
    const Deadline next(std::min(deadline.at(), NextLook(now)));
    if (::poll(fds.data(), fds.size(), PollTimeoutMs(next)) > 0 && fds[1].revents != 0) {
      return {What::kReadable, nullptr, {}};
    }
    if (deadline.Passed(SteadyNow())) return {};
  }
}

std::optional<Supervisor::Event> Supervisor::Look(Time now) {
  for (const auto& watched : children_) {
    if (watched->restart_at.has_value()) {
      if (*watched->restart_at > now) continue;
      if (auto event = StartAgain(*watched, now)) return event;
      continue;
    }
    if (watched->reported) continue;
    if (auto how = watched->child->Ended()) {
      watched->reported = true;
      if (auto event = OnEnd(*watched, now, *std::move(how))) return event;
      continue;
    }
    ReadProgress(*watched, now);
    const auto why = watched->stuck.Check(now, watched->child->Stopped());
    if (why.has_value() && keeping_alive_) {
      Say(fmt::format("{} (pid {}) {}: killing it", watched->command.name, watched->child->pid(),
                      *why));
      watched->child->Signal(SIGKILL);
    }
  }
  return std::nullopt;
}

std::optional<Supervisor::Event> Supervisor::OnEnd(Watched& watched, Time now, std::string how) {
  const ChildProcess& child = *watched.child;
  if (!keeping_alive_) return Event{What::kChildEnded, &child, std::move(how)};
  const RestartPolicy::Decision decision = watched.policy.Ended(now, child.ended_well());
  switch (decision.what) {
    case RestartPolicy::What::kRestart:
      watched.restart_at = decision.at;
      Say(fmt::format("{} (pid {}) ended: {}; starting it again in {:.2f} s", child.name(),
                      child.pid(), how, ToSeconds(decision.at - now)));
      return std::nullopt;
    case RestartPolicy::What::kLeave:
      watched.left = true;
      Say(fmt::format("{} (pid {}) ended: {}; it is not started again", child.name(), child.pid(),
                      how));
      return std::nullopt;
    case RestartPolicy::What::kGiveUp:
      break;
  }
  if (options_.restart.mode != RestartMode::kNever) {
    how += fmt::format(" (death {} in a row soon after its start: giving up)",
                       watched.policy.early_deaths());
  }
  return Event{What::kChildEnded, &child, std::move(how)};
}

std::optional<Supervisor::Event> Supervisor::StartAgain(Watched& watched, Time now) {
  watched.policy.Started();
  watched.stuck.Started();
  StatusOr<ChildProcess> child = ChildProcess::Start(watched.command);
  if (!child.ok()) {  // out of memory or processes: what a later try may find better
    watched.restart_at.reset();
    return OnEnd(watched, now, std::string(FromAbsl(child.status().message())));
  }
  watched.restart_at.reset();
  watched.reported = false;
  watched.child = std::make_unique<ChildProcess>(*std::move(child));
  if (!watched.command.tells_progress) watched.policy.Ready(now);
  return std::nullopt;
}

void Supervisor::ReadProgress(Watched& watched, Time now) {
  if (watched.child->progress_fd() < 0) return;
  char text[4096];
  while (true) {
    const ssize_t got = ::read(watched.child->progress_fd(), text, sizeof text);
    if (got <= 0) return;
    const auto said = ProgressLine::Last({text, static_cast<std::size_t>(got)});
    if (!said) continue;
    watched.policy.Ready(now);
    watched.stuck.OnProgress(now, said->running_for, said->stuck_after);
  }
}

Time Supervisor::NextLook(Time now) const {
  Time next = keeping_alive_ ? now + StuckWatch::kEvery : kNever;
  for (const auto& watched : children_) {
    if (watched->restart_at.has_value()) next = std::min(next, *watched->restart_at);
  }
  return next;
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
  keeping_alive_ = false;
  // Those that wait for a restart have ended, and that was told.
  std::erase_if(children_,
                [](const auto& watched) { return watched->restart_at || watched->left; });
  const Deadline deadline = Deadline::After(SteadyNow(), patience);
  std::size_t kept = children_.empty() ? 0 : children_.size() - 1;
  while (true) {
    for (std::size_t i = kept; i < children_.size(); ++i) children_[i]->child->Signal(SIGTERM);
    AwaitEnds(kept, deadline);
    if (kept == 0) break;
    kept = 0;
  }
  std::string bad;
  for (const auto& watched : children_) {
    if (watched->child->ended_well()) continue;
    bad += fmt::format("{}{}: {}", bad.empty() ? "" : "; ", watched->child->name(),
                       *watched->child->Ended());
  }
  children_.clear();
  if (!bad.empty()) return Unavailable("did not stop cleanly: {}", bad);
  return OkStatus();
}

void Supervisor::AwaitEnds(std::size_t from, Deadline deadline) {
  const auto running = [&] {
    bool any = false;
    for (std::size_t i = from; i < children_.size(); ++i) any |= !children_[i]->child->Ended();
    return any;
  };
  while (running()) {
    const Event event = Wait(deadline);
    if (event.what != What::kTimeout && event.what != What::kStopSignal) continue;
    for (const auto& watched : children_) watched->child->Signal(SIGKILL);
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
