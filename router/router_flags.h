// The flags of tandem-router, each also a key of its configuration file.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/base/units.h"
#include "common/config/program_options.h"
#include "common/net/endpoint.h"

namespace tandem::router {

struct RouterFlags {
  std::string model;
  std::vector<std::string> alias;
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string port_file;
  std::string admin_host = "127.0.0.1";
  int admin_port = -1;  // -1: none
  std::string admin_port_file;
  std::vector<std::string> prefill;
  std::vector<std::string> decode;
  std::vector<std::string> api_keys;
  std::vector<std::string> cors_origins;
  bool allow_public = false;
  Duration deadline = std::chrono::minutes(10);
  ByteCount max_body{32 << 20};
  ByteCount max_bodies{256 << 20};
  // Longer than a supervisor's longest pause before a restart, and the loading after it.
  Duration no_pair_wait = std::chrono::seconds(30);
  int max_requests = 1024;
  int max_queued = 512;
  int max_connections = 4096;
  int max_connections_per_address = 2048;
  Duration stop_grace = std::chrono::seconds(5);
  std::string log_level = "info";
  int progress_fd = -1;  // -1: none

  // Adds every flag to `options`; `this` must outlive it.
  void AddTo(config::ProgramOptions& options);
  // Errors: InvalidArgument naming the flag, its value and the fix.
  Status Validate() const;
};

// Requires: Validate() was OK.
std::vector<net::HostPort> Addresses(const std::vector<std::string>& texts);

}  // namespace tandem::router
