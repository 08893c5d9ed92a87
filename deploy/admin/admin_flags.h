// Where a router's admin port is, as commands are told.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/config/program_options.h"

namespace tandem::deploy {

struct AdminFlags {
  std::string admin;  // "http://127.0.0.1:9001"; empty: of `tandem serve --port port` on this host
  int port = 8000;
  std::string state_folder;  // of that `tandem serve`; empty: DefaultStateFolder()
  std::string api_key;

  void Register(config::ProgramOptions& options);
  // Errors: NotFound saying where it was looked for and what to give.
  StatusOr<std::string> Url() const;
};

// Where `tandem serve` keeps the address of its router's admin port, under its folder.
inline constexpr char kAdminPortFile[] = "admin.port";

}  // namespace tandem::deploy
