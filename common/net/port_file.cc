#include "common/net/port_file.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace tandem::net {

Status WritePortFile(const std::string& path, const HostPort& address) {
  if (path.empty()) return OkStatus();
  const std::string half = path + ".new";
  {
    std::ofstream out(half);
    out << address.ToString() << "\n";
    if (!out.flush()) return Unavailable("cannot write {}", half);
  }
  std::error_code error;
  std::filesystem::rename(half, path, error);
  if (error) return Unavailable("cannot write {}: {}", path, error.message());
  return OkStatus();
}

}  // namespace tandem::net
