// A server that does nothing but stream, to find what a load generator itself can do: every request
// gets --tokens events, one every --gap-ms. One thread, epoll, no parsing beyond Content-Length.
//
//   stream_server [--port 0] [--tokens 64] [--gap-ms 20]
//
// Prints its port, then runs until killed.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/check.h"
#include "common/base/descriptor_limit.h"
#include "common/base/scoped_fd.h"
#include "common/base/time.h"

namespace tandem::bench {
namespace {

constexpr std::string_view kHead =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
constexpr std::string_view kModels =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 24\r\n\r\n"
    "{\"data\":[{\"id\":\"none\"}]}";

std::string Chunk(std::string_view event) {
  return fmt::format("{:x}\r\n{}\r\n", event.size(), event);
}

class StreamServer {
 public:
  StreamServer(int port, int tokens, Duration gap) : tokens_(tokens), gap_(gap) {
    token_event_ = Chunk(
        "data: {\"id\":\"cmpl-0\",\"object\":\"text_completion\",\"created\":0,\"model\":\"none\","
        "\"choices\":[{\"index\":0,\"text\":\" word\",\"logprobs\":null,\"finish_reason\":null}],"
        "\"usage\":null}\n\n");
    last_events_ =
        Chunk(
            "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n") +
        Chunk(fmt::format("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":1,"
                          "\"completion_tokens\":{}}}}}\n\n",
                          tokens)) +
        Chunk("data: [DONE]\n\n") + "0\r\n\r\n";
    listener_ = ScopedFd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    TANDEM_CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
    TANDEM_CHECK(::listen(listener_.get(), 4096) == 0);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length);
    std::printf("%d\n", ntohs(address.sin_port));
    std::fflush(stdout);
    epoll_ = ScopedFd(::epoll_create1(EPOLL_CLOEXEC));
    Watch(listener_.get());
  }

  void Run() {
    std::vector<epoll_event> events(1024);
    for (;;) {
      const bool streaming = !due_.empty();
      const int n = ::epoll_wait(epoll_.get(), events.data(), 1024, streaming ? 1 : -1);
      for (int i = 0; i < n; ++i) {
        const int fd = events[static_cast<std::size_t>(i)].data.fd;
        fd == listener_.get() ? Accept() : Read(fd);
      }
      const Time now = SteadyNow();
      while (!due_.empty() && due_.begin()->first <= now) {
        const auto [at, who] = *due_.begin();
        due_.erase(due_.begin());
        Step(at, who.fd, who.stream);
      }
    }
  }

 private:
  struct Connection {
    ScopedFd fd;
    std::string input;
    std::int64_t stream = 0;  // number of the one that runs; 0: none
    int left = 0;             // events to send
  };
  struct Who {
    int fd;
    std::int64_t stream;
  };

  void Watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }
  void Accept() {
    for (;;) {
      ScopedFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd.valid()) return;
      const int on = 1;
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      Watch(fd.get());
      const int number = fd.get();
      connections_[number].fd = std::move(fd);
    }
  }
  void Read(int fd) {
    char buffer[65536];
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
      connections_.erase(fd);
      return;
    }
    Connection& connection = connections_[fd];
    connection.input.append(buffer, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    const std::size_t head = connection.input.find("\r\n\r\n");
    if (head == std::string::npos) return;
    const std::size_t at = connection.input.find("Content-Length: ");
    const std::size_t body = at < head ? std::stoul(connection.input.substr(at + 16)) : 0;
    if (connection.input.size() < head + 4 + body) return;
    const bool models = connection.input.starts_with("GET");
    connection.input.clear();
    Send(fd, models ? kModels : kHead);
    if (models) return;
    connection.stream = ++streams_;
    connection.left = tokens_;
    due_.insert({SteadyNow() + gap_, {fd, connection.stream}});
  }
  void Step(Time at, int fd, std::int64_t stream) {
    const auto found = connections_.find(fd);
    if (found == connections_.end() || found->second.stream != stream) return;
    Send(fd, token_event_);
    if (--found->second.left > 0) {
      due_.insert({at + gap_, {fd, stream}});
    } else {
      Send(fd, last_events_);
    }
  }
  // A client that does not read loses events, and so fails.
  void Send(int fd, std::string_view bytes) {
    (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  const int tokens_;
  const Duration gap_;
  std::string token_event_;
  std::string last_events_;
  ScopedFd listener_;
  ScopedFd epoll_;
  std::unordered_map<int, Connection> connections_;
  std::multimap<Time, Who> due_;
  std::int64_t streams_ = 0;
};

int Main(int argc, char** argv) {
  std::map<std::string, int> values = {{"--port", 0}, {"--tokens", 64}, {"--gap-ms", 20}};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!values.contains(argv[i])) {
      std::fprintf(stderr, "usage: stream_server [--port 0] [--tokens 64] [--gap-ms 20]\n");
      return 2;
    }
    values[argv[i]] = std::atoi(argv[i + 1]);
  }
  RaiseDescriptorLimit();
  StreamServer(values["--port"], values["--tokens"], std::chrono::milliseconds(values["--gap-ms"]))
      .Run();
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
