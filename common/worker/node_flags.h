// The flags that both node programs have, each also a key of their configuration file.
#pragma once

#include <chrono>
#include <string>

#include "common/base/cpu_list.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/base/units.h"
#include "common/config/program_options.h"
#include "common/kv/layout.h"
#include "common/net/endpoint.h"
#include "kv_transfer/transfer.h"

namespace tandem::worker {

struct NodeFlags {
  std::string model;
  std::string name;       // the program sets its default
  std::string listen;     // the program sets its default
  std::string port_file;  // empty: none
  int threads = 0;        // 0: one a CPU
  int context = 0;        // tokens; 0: the model's
  ByteCount kv_memory{std::int64_t{1} << 30};
  std::string kv_transport = "auto";
  std::string kv_interface;  // empty: any
  std::string numerics = "auto";
  std::string weights_cache = "auto";
  int nice = 0;              // the program sets its default
  std::string cpus = "any";  // "0-3,8", any or auto; the program sets its default
  std::string core_group;    // empty: the node's cores are its own
  Duration drain_timeout = std::chrono::seconds(10);
  std::string log_level = "info";
  int parent_pid = 0;    // 0: none
  int progress_fd = -1;  // -1: none

  // Adds every flag; `this` must outlive `options`.
  void AddTo(config::ProgramOptions& options);
  // Errors: InvalidArgument naming the flag, its value and the fix.
  Status Validate() const;
  // What --cpus says; auto: all, one for each thread, where there are as many threads and the
  // system lets us bind them (else a warning). Empty: any. Requires: Validate().ok().
  CpuList Cpus() const;
};

// How many blocks of `layout` fit in `memory`, and how many tokens one sequence may have: `wanted`
// (0: all that the model can), the model's own context at most, what the blocks hold at most.
// Errors: InvalidArgument with the memory that is needed.
struct KvSize {
  kv::BlockCount num_blocks{0};
  TokenCount context{0};
};
StatusOr<KvSize> FitKv(const kv::KvLayout& layout, ByteCount memory, TokenCount wanted,
                       TokenCount of_model);

}  // namespace tandem::worker
