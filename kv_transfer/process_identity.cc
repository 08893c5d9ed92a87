#include "kv_transfer/process_identity.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

namespace tandem::transfer {
namespace {

StatusOr<std::string> ReadSmallFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file.good()) return Unavailable("cannot read {}: {}", path, std::strerror(errno));
  return text.str();
}

// Field 22 of /proc/PID/stat. The second field, the command, may hold spaces and parentheses.
StatusOr<std::uint64_t> StartTime(std::int64_t pid) {
  const std::string path = fmt::format("/proc/{}/stat", pid);
  TANDEM_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path));
  const std::size_t after_command = text.rfind(')');
  if (after_command == std::string::npos) return Unavailable("{} has no command", path);
  std::istringstream fields(text.substr(after_command + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) fields >> field;
  std::uint64_t ticks = 0;
  const auto parsed = std::from_chars(field.data(), field.data() + field.size(), ticks);
  if (!fields || parsed.ec != std::errc() || parsed.ptr != field.data() + field.size()) {
    return Unavailable("{}: field 22 (start time) is not a number", path);
  }
  return ticks;
}

}  // namespace

StatusOr<ProcessIdentity> ProcessIdentity::Self() {
  ProcessIdentity self;
  TANDEM_ASSIGN_OR_RETURN(self.host_id, ReadSmallFile("/proc/sys/kernel/random/boot_id"));
  while (!self.host_id.empty() && self.host_id.back() == '\n') self.host_id.pop_back();
  struct stat ns;
  if (::stat("/proc/self/ns/pid", &ns) != 0) {
    return Unavailable("cannot stat /proc/self/ns/pid: {}", std::strerror(errno));
  }
  self.pid_namespace = ns.st_ino;
  self.pid = ::getpid();
  TANDEM_ASSIGN_OR_RETURN(self.start_time, StartTime(self.pid));
  return self;
}

StatusOr<PeerProcess> PeerProcess::Open(const ProcessIdentity& identity) {
  TANDEM_ASSIGN_OR_RETURN(const ProcessIdentity self, ProcessIdentity::Self());
  if (identity.host_id != self.host_id) {
    return FailedPrecondition("process {} is on host {}, this one on {}", identity.pid,
                              identity.host_id, self.host_id);
  }
  if (identity.pid_namespace != self.pid_namespace) {
    return FailedPrecondition(
        "process {} is in pid namespace {}, this one in {}: share it (docker --pid) or use TCP",
        identity.pid, identity.pid_namespace, self.pid_namespace);
  }
  if (identity.pid <= 0 || identity.pid > INT32_MAX) {
    return InvalidArgument("pid {} is not one", identity.pid);
  }
  ScopedFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(identity.pid), 0)));
  if (!pidfd.valid()) {
    if (errno == ESRCH) return NotFound("process {} has ended", identity.pid);
    return Unavailable("pidfd_open({}): {}", identity.pid, std::strerror(errno));
  }
  // Only now, with the pid held by the descriptor, does its start time belong to it.
  const StatusOr<std::uint64_t> start = StartTime(identity.pid);
  PeerProcess peer(std::move(pidfd));
  if (!start.ok()) {
    if (peer.Gone()) return NotFound("process {} has ended", identity.pid);
    return start.status();
  }
  if (*start != identity.start_time) {
    return NotFound("process {} has ended: its pid now names another", identity.pid);
  }
  return peer;
}

bool PeerProcess::Gone() const {
  pollfd poll_fd{pidfd_.get(), POLLIN, 0};
  return ::poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLIN) != 0;
}

}  // namespace tandem::transfer
