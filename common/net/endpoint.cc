#include "common/net/endpoint.h"

#include <charconv>

namespace tandem::net {

std::string HostPort::ToString() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

StatusOr<HostPort> ParseHostPort(std::string_view text) {
  HostPort out;
  std::string_view host;
  std::string_view port;
  if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return InvalidArgument("address '{}': put an IPv6 address in brackets, as in [::1]:8000", text);
  }
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (host.empty() || port.empty() || error != std::errc() || end != port.data() + port.size()) {
    return InvalidArgument("address '{}' is not host:port, as in 127.0.0.1:8000", text);
  }
  out.host = host;
  return out;
}

}  // namespace tandem::net
