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

  // Starts the nodes, then the router, and waits until it answers healthy. `progress` gets a line
  // per step. Errors: Unavailable with a child's last log lines, Cancelled on a stop signal,
  // DeadlineExceeded.
  Status Start(const std::function<void(const std::string&)>& progress);

  // "http://127.0.0.1:8000", once started.
  const std::string& url() const { return url_; }
  const std::filesystem::path& logs() const { return folder_; }

 private:
  Status StartNode(const std::string& role, int index);
  Status StartRouter(const std::vector<std::string>& prefill,
                     const std::vector<std::string>& decode);
  std::filesystem::path PortFile(const std::string& name) const;

  const ServeOptions& options_;
  std::filesystem::path programs_;
  Supervisor& supervisor_;
  std::filesystem::path folder_;  // logs, port files, the router's configuration
  std::string url_;
};

}  // namespace tandem::deploy
