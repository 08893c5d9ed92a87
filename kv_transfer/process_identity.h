// One life of a process, as another process of the same host can check it.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/scoped_fd.h"
#include "common/base/status.h"

namespace tandem::transfer {

struct ProcessIdentity {
  std::string host_id;              // equal: same boot of the same host
  std::uint64_t pid_namespace = 0;  // pids compare only inside one
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;  // clock ticks since boot: tells lives of one pid apart

  bool operator==(const ProcessIdentity&) const = default;
  // The calling process. Errors: Unavailable naming the file of /proc that could not be read.
  static StatusOr<ProcessIdentity> Self();
};

// Watches one process of this host by pidfd: the proof that a writer to shared memory is gone.
// Thread-safe after Open.
class PeerProcess {
 public:
  // Errors: FailedPrecondition when `identity` is of another host or pid namespace; NotFound when
  // that life has ended already (which is the proof itself); Unavailable when the system refuses.
  static StatusOr<PeerProcess> Open(const ProcessIdentity& identity);

  // Readable (POLLIN) from the moment the process is gone, for good.
  int fd() const { return pidfd_.get(); }
  // True once the process can write nothing any more. A stopped process is not gone.
  bool Gone() const;

 private:
  explicit PeerProcess(ScopedFd pidfd) : pidfd_(std::move(pidfd)) {}
  ScopedFd pidfd_;
};

}  // namespace tandem::transfer
