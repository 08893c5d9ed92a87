// An IP address and port, as text ("10.0.0.7:4711", "[fe80::1%eth0]:4711") and as sockets want it.
#pragma once

#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <ucs/sys/sock.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tandem::transfer::ucx {

class SocketAddress {
 public:
  // An address of this host's interface `device`, IPv4 before IPv6, port 0. Empty: of the first
  // interface that is up and not a loopback, or of the loopback when there is no other.
  // Errors: NotFound naming the interfaces there are.
  static StatusOr<SocketAddress> OfDevice(std::string_view device);
  // Errors: InvalidArgument.
  static StatusOr<SocketAddress> Parse(std::string_view text);
  static SocketAddress FromStorage(const sockaddr_storage& storage);

  std::string ToString() const;
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  ucs_sock_addr_t ucs() const;  // points into this object

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

}  // namespace tandem::transfer::ucx
