#include "deploy/admin/admin_flags.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "deploy/serve/serve_options.h"

namespace tandem::deploy {

void AdminFlags::Register(config::ProgramOptions& options) {
  using namespace config;
  options.Add("admin", "URL", "of a router's admin port (of the local `tandem serve`)",
              Text(&admin));
  options.Add("port", "PORT", "of the local `tandem serve`'s API", Int(&port, 1, 65535));
  options.Add("state-folder", "PATH",
              fmt::format("of the local `tandem serve` ({})", DefaultStateFolder().string()),
              Text(&state_folder));
  options.Add("api-key", "KEY", "where the router wants one (none)", Text(&api_key));
}

StatusOr<std::string> AdminFlags::Url() const {
  if (!admin.empty()) {
    return admin.find("://") == std::string::npos ? "http://" + admin : admin;
  }
  const std::filesystem::path base =
      state_folder.empty() ? DefaultStateFolder() : std::filesystem::path(state_folder);
  const std::filesystem::path file = base / fmt::format("serve-{}", port) / kAdminPortFile;
  std::ifstream in(file);
  std::string address;
  if (!std::getline(in, address) || address.empty()) {
    return NotFound(
        "no router found: {} does not tell its admin port; is `tandem serve --port {}` running? "
        "Give --port or --admin URL for another",
        file.string(), port);
  }
  return "http://" + address;
}

}  // namespace tandem::deploy
