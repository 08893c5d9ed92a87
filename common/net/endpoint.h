// "host:port" as people write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tandem::net {

struct HostPort {
  std::string host;  // a name or address, without brackets
  std::uint16_t port = 0;

  bool operator==(const HostPort&) const = default;
  // "host:port"; an IPv6 address in brackets.
  std::string ToString() const;
};

// Reads "127.0.0.1:8000", "localhost:0" or "[::1]:8000".
// Errors: InvalidArgument quoting the text.
StatusOr<HostPort> ParseHostPort(std::string_view text);

}  // namespace tandem::net
