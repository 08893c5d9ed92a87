// One node program as a child, until destroyed.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/net/endpoint.h"

namespace tandem::testing {

class NodeProcess {
 public:
  // Runs `command` (its first word is looked for in PATH) with --port-file added, and waits until
  // it is ready. Errors: Unavailable with its exit status.
  static StatusOr<std::unique_ptr<NodeProcess>> Start(std::vector<std::string> command,
                                                      const std::string& port_file);
  // SIGCONT and SIGTERM, then waits.
  ~NodeProcess();

  void Signal(int signal);
  const net::HostPort& address() const { return address_; }

 private:
  NodeProcess(pid_t pid, std::string port_file) : pid_(pid), port_file_(std::move(port_file)) {}

  pid_t pid_;
  std::string port_file_;
  net::HostPort address_;
};

}  // namespace tandem::testing
