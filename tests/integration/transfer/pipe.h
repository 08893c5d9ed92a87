// Talks to a peer process of a test or benchmark over a socket pair: length-prefixed strings, and
// sink descriptors as such.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/scoped_fd.h"
#include "kv_transfer/transfer.h"

namespace tandem::transfer {

class Pipe {
 public:
  explicit Pipe(ScopedFd fd) : fd_(std::move(fd)) {}
  static std::pair<Pipe, Pipe> Pair() {
    int fds[2];
    TANDEM_CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    return {Pipe(ScopedFd(fds[0])), Pipe(ScopedFd(fds[1]))};
  }
  int fd() const { return fd_.get(); }

  // False: the peer is gone.
  bool Send(std::string_view text) {
    const auto size = static_cast<std::uint32_t>(text.size());
    return SendAll(&size, sizeof size) && SendAll(text.data(), text.size());
  }
  bool Receive(std::string& text) {
    std::uint32_t size = 0;
    if (!ReceiveAll(&size, sizeof size)) return false;
    text.resize(size);
    return ReceiveAll(text.data(), size);
  }
  // Sends and waits for the answer; empty when the peer is gone.
  std::string Ask(std::string_view text) {
    std::string answer;
    if (!Send(text) || !Receive(answer)) answer.clear();
    return answer;
  }

 private:
  bool SendAll(const void* bytes, std::size_t size) {
    const char* p = static_cast<const char*>(bytes);
    while (size > 0) {
      const ssize_t n = ::send(fd_.get(), p, size, MSG_NOSIGNAL);
      if (n <= 0) return false;
      p += n;
      size -= static_cast<std::size_t>(n);
    }
    return true;
  }
  bool ReceiveAll(void* bytes, std::size_t size) {
    char* p = static_cast<char*>(bytes);
    while (size > 0) {
      const ssize_t n = ::recv(fd_.get(), p, size, 0);
      if (n <= 0) return false;
      p += n;
      size -= static_cast<std::size_t>(n);
    }
    return true;
  }
  ScopedFd fd_;
};

inline void AppendField(std::string& out, std::string_view field) {
  const auto size = static_cast<std::uint32_t>(field.size());
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(field);
}
inline void AppendNumber(std::string& out, std::uint64_t number) {
  AppendField(out, {reinterpret_cast<const char*>(&number), sizeof number});
}
inline std::string TakeField(std::string_view& in) {
  std::uint32_t size = 0;
  TANDEM_CHECK(in.size() >= sizeof size);
  std::memcpy(&size, in.data(), sizeof size);
  in.remove_prefix(sizeof size);
  TANDEM_CHECK(in.size() >= size);
  std::string field(in.substr(0, size));
  in.remove_prefix(size);
  return field;
}
inline std::uint64_t TakeNumber(std::string_view& in) {
  const std::string field = TakeField(in);
  std::uint64_t number = 0;
  TANDEM_CHECK(field.size() == sizeof number);
  std::memcpy(&number, field.data(), sizeof number);
  return number;
}

inline std::string Encode(const SinkDescriptor& sink) {
  std::string out;
  AppendNumber(out, static_cast<std::uint64_t>(sink.transport));
  AppendField(out, sink.address);
  AppendField(out, sink.process.host_id);
  AppendNumber(out, sink.process.pid_namespace);
  AppendNumber(out, static_cast<std::uint64_t>(sink.process.pid));
  AppendNumber(out, sink.process.start_time);
  AppendNumber(out, sink.incarnation);
  AppendNumber(out, sink.regions.size());
  for (const RegionDescriptor& region : sink.regions) {
    AppendNumber(out, region.id.value());
    AppendNumber(out, static_cast<std::uint64_t>(region.length.value()));
    AppendField(out, region.key);
  }
  return out;
}

inline SinkDescriptor DecodeSink(std::string_view in) {
  SinkDescriptor sink;
  sink.transport = static_cast<Transport>(TakeNumber(in));
  sink.address = TakeField(in);
  sink.process.host_id = TakeField(in);
  sink.process.pid_namespace = TakeNumber(in);
  sink.process.pid = static_cast<std::int64_t>(TakeNumber(in));
  sink.process.start_time = TakeNumber(in);
  sink.incarnation = TakeNumber(in);
  const std::uint64_t regions = TakeNumber(in);
  for (std::uint64_t i = 0; i < regions; ++i) {
    RegionDescriptor region;
    region.id = RegionId(static_cast<std::uint32_t>(TakeNumber(in)));
    region.length = ByteCount(static_cast<std::int64_t>(TakeNumber(in)));
    region.key = TakeField(in);
    sink.regions.push_back(std::move(region));
  }
  return sink;
}

}  // namespace tandem::transfer
