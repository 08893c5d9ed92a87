#include "tests/integration/nodes/node_process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

extern char** environ;

namespace tandem::testing {

StatusOr<std::unique_ptr<NodeProcess>> NodeProcess::Start(std::vector<std::string> command,
                                                          const std::string& port_file) {
  ::unlink(port_file.c_str());
  command.insert(command.end(), {"--port-file", port_file});
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = 0;
  if (const int error =
          ::posix_spawnp(&pid, arguments[0], nullptr, nullptr, arguments.data(), environ);
      error != 0) {
    return Unavailable("cannot start {}: {}", command[0], std::strerror(error));
  }
  std::unique_ptr<NodeProcess> node(new NodeProcess(pid, port_file));
  std::string line;
  while (!std::getline(std::ifstream(port_file), line)) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) {
      node->pid_ = 0;
      return Unavailable("{} ended with status {}", command[0], WEXITSTATUS(status));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  TANDEM_ASSIGN_OR_RETURN(node->address_, net::ParseHostPort(line));
  return node;
}

void NodeProcess::Signal(int signal) { ::kill(pid_, signal); }

NodeProcess::~NodeProcess() {
  if (pid_ > 0) {
    Signal(SIGTERM);
    Signal(SIGCONT);
    ::waitpid(pid_, nullptr, 0);
  }
  ::unlink(port_file_.c_str());
}

}  // namespace tandem::testing
