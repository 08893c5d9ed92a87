// A router, prefill nodes and decode nodes on this host, as children of one supervisor.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "deploy/serve/serve_options.h"
#include "deploy/serve/supervisor.h"

namespace tandem::deploy {

class LocalCluster {
 public:
  // `programs`: the folder of tandem-router and its siblings. Both references outlive the cluster.
  LocalCluster(const ServeOptions& options, std::filesystem::path programs, Supervisor& supervisor);

  // Starts the nodes, then the router, waits until it answers healthy, and has them kept alive from
  // then on, each on the address it has now. `progress` gets a line per step. Errors: Unavailable
  // with a child's last log lines, Cancelled on a stop signal, DeadlineExceeded.
  Status Start(const std::function<void(const std::string&)>& progress);

  // "http://127.0.0.1:8000", once started.
  const std::string& url() const { return url_; }
  const std::filesystem::path& logs() const { return folder_; }

 private:
  std::vector<std::string> NodeArguments(const std::string& role, const std::string& name,
                                         const std::string& listen) const;
  Status StartNode(const std::string& role, int index);
  // Their addresses, which they keep over restarts.
  StatusOr<std::vector<std::string>> AwaitNodes(const std::string& role, int count,
                                                Deadline deadline);
  Status WriteRouterConfig(int port) const;
  Status StartRouter(Deadline deadline);
  Status AwaitHealth(Deadline deadline);
  std::filesystem::path PortFile(const std::string& name) const;

  const ServeOptions& options_;
  std::filesystem::path programs_;
  Supervisor& supervisor_;
  std::filesystem::path folder_;               // logs, port files, the router's configuration
  std::vector<std::string> prefill_, decode_;  // addresses
  std::string url_;
};

}  // namespace tandem::deploy
