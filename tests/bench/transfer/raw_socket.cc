// A tuned TCP socket as the yardstick: large buffers, blocks gathered to about a megabyte a call,
// received straight into their places, whose order both sides know.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kv_transfer/host_memory.h"
#include "tests/bench/transfer/method.h"
#include "tests/bench/transfer/receiver.h"

namespace tandem::transfer::bench {
namespace {

constexpr std::size_t kCallBytes = 1 << 20;
constexpr std::size_t kMaxVectors = 1024;

void Tune(int fd) {
  const int one = 1;
  const int buffer = 4 << 20;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
}

// Moves all of `vectors` with `call` (sendmsg or recvmsg), about kCallBytes at a time.
template <typename Call>
void MoveAll(std::vector<iovec> vectors, Call call) {
  std::size_t next = 0;
  while (next < vectors.size()) {
    std::size_t count = 0, bytes = 0;
    while (next + count < vectors.size() && bytes < kCallBytes && count < kMaxVectors) {
      bytes += vectors[next + count++].iov_len;
    }
    msghdr message{};
    message.msg_iov = &vectors[next];
    message.msg_iovlen = count;
    ssize_t moved = call(&message);
    TANDEM_CHECK(moved > 0);
    while (moved > 0) {
      iovec& vector = vectors[next];
      const auto step = std::min<std::size_t>(static_cast<std::size_t>(moved), vector.iov_len);
      vector.iov_base = static_cast<std::byte*>(vector.iov_base) + step;
      vector.iov_len -= step;
      moved -= static_cast<ssize_t>(step);
      if (vector.iov_len == 0) ++next;
    }
  }
}

void Serve(std::size_t bytes, Pipe pipe) {
  HostMemory memory = *HostMemory::Allocate(ByteCount(static_cast<std::int64_t>(bytes)));
  std::memset(memory.bytes().data(), 1, bytes);
  const ScopedFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Tune(listener.get());
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  TANDEM_CHECK(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
  TANDEM_CHECK(::listen(listener.get(), 1) == 0);
  TANDEM_CHECK(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
  pipe.Send({reinterpret_cast<const char*>(&address), sizeof address});
  const ScopedFd fd(::accept(listener.get(), nullptr, nullptr));
  Tune(fd.get());
  std::string text;
  while (pipe.Receive(text)) {  // the shape: layers, blocks, bytes a block
    Shape shape;
    std::string_view in = text;
    shape.layers = TakeNumber(in);
    shape.blocks = TakeNumber(in);
    shape.block_bytes = TakeNumber(in);
    std::vector<iovec> vectors;
    for (const Write& write : shape.Writes()) {
      vectors.push_back({memory.bytes().data() + write.sink_offset, write.length});
    }
    pipe.Send("ready");
    MoveAll(std::move(vectors), [&](msghdr* message) { return ::recvmsg(fd.get(), message, 0); });
    pipe.Send("ok");
  }
}

class RawSocket final : public Method {
 public:
  explicit RawSocket(std::span<const std::byte> memory)
      : memory_(memory), receiver_([=](Pipe pipe) { Serve(memory.size(), std::move(pipe)); }) {}
  std::string name() const override { return "raw-tcp"; }
  double Run(const Shape& shape, std::span<const Write> writes) override {
    Connect();
    std::string order;
    AppendNumber(order, shape.layers);
    AppendNumber(order, shape.blocks);
    AppendNumber(order, shape.block_bytes);
    TANDEM_CHECK(receiver_.pipe().Ask(order) == "ready");
    std::vector<iovec> vectors;
    for (const Write& write : writes) {
      vectors.push_back(
          {const_cast<std::byte*>(memory_.data()) + write.source_offset, write.length});
    }
    const Time start = SteadyNow();
    MoveAll(std::move(vectors),
            [&](msghdr* message) { return ::sendmsg(fd_.get(), message, MSG_NOSIGNAL); });
    std::string answer;
    TANDEM_CHECK(receiver_.pipe().Receive(answer) && answer == "ok");
    return ToSeconds(SteadyNow() - start);
  }

 private:
  void Connect() {
    if (fd_.valid()) return;
    std::string text;
    TANDEM_CHECK(receiver_.pipe().Receive(text));
    fd_ = ScopedFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    Tune(fd_.get());
    TANDEM_CHECK(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(text.data()),
                           static_cast<socklen_t>(text.size())) == 0);
  }
  const std::span<const std::byte> memory_;
  Receiver receiver_;
  ScopedFd fd_;
};

}  // namespace

std::unique_ptr<Method> MakeRawSocket(std::span<const std::byte> memory) {
  return std::make_unique<RawSocket>(memory);
}

}  // namespace tandem::transfer::bench
