#include "tests/testing/scripted_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/check.h"

namespace tandem::testing {
namespace {

bool SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

// The length of the whole first request in `bytes`; 0 while it is not there.
std::size_t RequestLength(const std::string& bytes) {
  const std::size_t head = bytes.find("\r\n\r\n");
  if (head == std::string::npos) return 0;
  const std::size_t at = bytes.find("Content-Length: ");
  const std::size_t body = at < head ? std::stoul(bytes.substr(at + 16)) : 0;
  const std::size_t length = head + 4 + body;
  return bytes.size() >= length ? length : 0;
}

}  // namespace

ScriptedServer::ScriptedServer(Script script) : script_(std::move(script)) {
  listener_ = ScopedFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  TANDEM_CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
  TANDEM_CHECK(::listen(listener_.get(), SOMAXCONN) == 0);
  TANDEM_CHECK(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
  port_ = ntohs(address.sin_port);
  accept_thread_ = std::thread([this] { Accept(); });
}

ScriptedServer::~ScriptedServer() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const ScopedFd& peer : peers_) ::shutdown(peer.get(), SHUT_RDWR);
  }
  ::shutdown(listener_.get(), SHUT_RDWR);
  accept_thread_.join();
  for (std::thread& thread : threads_) thread.join();
}

std::string ScriptedServer::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

void ScriptedServer::Accept() {
  for (;;) {
    ScopedFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer.valid()) return;
    ++num_connections_;
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    const int fd = peer.get();
    peers_.push_back(std::move(peer));
    threads_.emplace_back([this, fd] { Serve(fd); });
  }
}

void ScriptedServer::Serve(int fd) {
  std::string bytes;
  char buffer[4096];
  const auto read_more = [&] {
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n > 0) bytes.append(buffer, static_cast<std::size_t>(n));
    return n > 0;
  };
  for (;;) {
    std::size_t length = 0;
    while ((length = RequestLength(bytes)) == 0) {
      if (!read_more()) return;
    }
    const std::size_t head = bytes.find("\r\n\r\n") + 4;
    Request request{
        .path = {}, .head = bytes.substr(0, head), .body = bytes.substr(head, length - head)};
    const std::size_t path = request.head.find(' ') + 1;
    request.path = request.head.substr(path, request.head.find(' ', path) - path);
    bytes.erase(0, length);
    const Answer answer = script_(request);
    if (!SendAll(fd, answer.bytes)) return;
    switch (answer.then) {
      case Then::kNext:
        continue;
      case Then::kClose:
        ::shutdown(fd, SHUT_WR);
        break;
      case Then::kReset: {
        // Connecting a socket to nothing drops its connection with an RST.
        sockaddr nothing{};
        nothing.sa_family = AF_UNSPEC;
        ::connect(fd, &nothing, sizeof nothing);
        return;
      }
      case Then::kHang:
        break;
    }
    while (read_more()) bytes.clear();
    return;
  }
}

std::string ScriptedServer::Whole(int status, std::string_view body, std::string_view type) {
  return fmt::format("HTTP/1.1 {} X\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}", status,
                     type, body.size(), body);
}

std::string ScriptedServer::Stream(const std::vector<std::string>& events, bool end) {
  std::string out =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& event : events) {
    out += fmt::format("{:x}\r\n{}\r\n", event.size(), event);
  }
  if (end) out += "0\r\n\r\n";
  return out;
}

std::string TextEvent(std::string_view text, std::string_view finish) {
  return fmt::format(R"(data: {{"choices":[{{"index":0,"text":"{}","finish_reason":{}}}]}})"
                     "\n\n",
                     text, finish.empty() ? "null" : fmt::format("\"{}\"", finish));
}

std::string UsageEvent(int prompt_tokens, int completion_tokens) {
  return fmt::format(
      R"(data: {{"choices":[],"usage":{{"prompt_tokens":{},"completion_tokens":{}}}}})"
      "\n\n",
      prompt_tokens, completion_tokens);
}

}  // namespace tandem::testing
