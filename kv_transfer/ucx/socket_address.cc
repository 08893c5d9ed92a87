#include "kv_transfer/ucx/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <set>

namespace tandem::transfer::ucx {
namespace {

socklen_t LengthOf(sa_family_t family) {
  return family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

// Lower is better; negative: not usable.
int Rank(const ifaddrs& entry, std::string_view device) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return -1;
  const sa_family_t family = entry.ifa_addr->sa_family;
  if (family != AF_INET && family != AF_INET6) return -1;
  if (!device.empty() && device != entry.ifa_name) return -1;
  int rank = family == AF_INET ? 0 : 1;
  if (device.empty() && (entry.ifa_flags & IFF_LOOPBACK) != 0) rank += 2;
  return rank;
}

}  // namespace

StatusOr<SocketAddress> SocketAddress::OfDevice(std::string_view device) {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return Unavailable("getifaddrs: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, ::freeifaddrs);
  const ifaddrs* best = nullptr;
  std::set<std::string> names;
  for (const ifaddrs* entry = raw; entry != nullptr; entry = entry->ifa_next) {
    names.insert(entry->ifa_name);
    const int rank = Rank(*entry, device);
    if (rank >= 0 && (best == nullptr || rank < Rank(*best, device))) best = entry;
  }
  if (best == nullptr) {
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    return NotFound("no network interface '{}' with an address is up; this host has: {}", device,
                    known);
  }
  SocketAddress address;
  address.length_ = LengthOf(best->ifa_addr->sa_family);
  std::memcpy(&address.storage_, best->ifa_addr, address.length_);
  return address;
}

StatusOr<SocketAddress> SocketAddress::Parse(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (text.size() > 128 || colon == std::string_view::npos || colon == 0) {
    return InvalidArgument("'{}' is not an IP address and port", text.substr(0, 128));
  }
  std::string host(text.substr(0, colon));
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const std::string port(text.substr(colon + 1));
  std::uint16_t number = 0;  // getaddrinfo would take a longer one's low bits
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != port.data() + port.size()) {
    return InvalidArgument("'{}' is not an IP address and port", text);
  }
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &raw) != 0) {
    return InvalidArgument("'{}' is not an IP address and port", text);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(raw, ::freeaddrinfo);
  SocketAddress address;
  address.length_ = raw->ai_addrlen;
  std::memcpy(&address.storage_, raw->ai_addr, raw->ai_addrlen);
  return address;
}

SocketAddress SocketAddress::FromStorage(const sockaddr_storage& storage) {
  SocketAddress address;
  address.storage_ = storage;
  address.length_ = LengthOf(storage.ss_family);
  return address;
}

std::string SocketAddress::ToString() const {
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&storage_), length_, host.data(), host.size(),
                    nullptr, 0, NI_NUMERICHOST) != 0) {
    return "?";
  }
  if (storage_.ss_family == AF_INET6) return fmt::format("[{}]:{}", host.data(), port());
  return fmt::format("{}:{}", host.data(), port());
}

std::uint16_t SocketAddress::port() const {
  return ntohs(storage_.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(storage_).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(storage_).sin_port);
}

void SocketAddress::set_port(std::uint16_t port) {
  if (storage_.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(storage_).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(storage_).sin_port = htons(port);
  }
}

ucs_sock_addr_t SocketAddress::ucs() const {
  return {reinterpret_cast<const sockaddr*>(&storage_), length_};
}

}  // namespace tandem::transfer::ucx
