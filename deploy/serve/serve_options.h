// What `tandem serve` can be told.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/config/program_options.h"
#include "deploy/serve/restart_policy.h"

namespace tandem::deploy {

struct ServeOptions {
  std::string model;
  std::string alias;  // empty: from the model's file name
  int num_prefill = 1;
  int num_decode = 1;
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string api_key;
  bool allow_public = false;
  int threads = 0;   // per node; 0: one per core
  std::string cpus;  // of each node's threads: a list, any, auto; empty: each role's own
  std::string core_sharing = "free";
  int context = 0;                             // tokens; 0: the model's own
  ByteCount kv_memory{std::int64_t{1} << 30};  // per node
  std::string kv_transport = "ucx-shm";
  std::string numerics = "auto";
  std::string weights_cache = "auto";
  std::string log_level = "info";
  std::string state_folder;  // logs; empty: DefaultStateFolder()
  std::string restart = "always";
  int give_up_after = 5;
  Duration stuck_after = std::chrono::seconds(60);
  std::string ask;
  bool once = false;

  void Register(config::ProgramOptions& options);
  // Errors: InvalidArgument (what, value, fix); ResourceExhausted when /dev/shm has too little
  // room.
  Status Validate() const;
  std::string ModelId() const;
  RestartMode restart_mode() const;
  // Whether nodes take turns at computing: it is wished, and they have more threads together than
  // there are CPUs.
  bool TakeTurns(int num_cpus) const;
};

// $XDG_STATE_HOME/tandem, ~/.local/state/tandem, or /tmp/tandem.
std::filesystem::path DefaultStateFolder();

// Errors: ResourceExhausted, with advice, when `folder` has fewer than `needed` bytes free.
Status CheckSharedMemory(const std::filesystem::path& folder, ByteCount needed);

}  // namespace tandem::deploy
