// An HttpServer with raw clients, and a handler that leaves the answers to the test.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/scoped_fd.h"
#include "common/net/http_server.h"

namespace tandem::net {

inline constexpr int kPatienceMs = 60'000;  // a bound on hanging, not on speed

// What it sends is sent as it is.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) {
      ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;  // the server has closed
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  // Bytes up to and including `end`; all there is if the server closes first.
  std::string ReadTo(std::string_view end) {
    while (buffer_.find(end) == std::string::npos && Fill()) {
    }
    std::size_t at = buffer_.find(end);
    std::size_t n = at == std::string::npos ? buffer_.size() : at + end.size();
    std::string out = buffer_.substr(0, n);
    buffer_.erase(0, n);
    return out;
  }
  std::string ReadAll() {
    while (Fill()) {
    }
    return std::exchange(buffer_, {});
  }
  void ShutdownSend() { ::shutdown(fd_.get(), SHUT_WR); }
  void Close() { fd_.Reset(); }

 private:
  bool Fill() {
    pollfd poll_fd{fd_.get(), POLLIN, 0};
    if (::poll(&poll_fd, 1, kPatienceMs) != 1) {
      ADD_FAILURE() << "nothing came";
      return false;
    }
    char bytes[4096];
    ssize_t n = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    buffer_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }

  ScopedFd fd_;
  std::string buffer_;
};

// Answers /echo at once with "METHOD PATH BODY"; keeps any other request for the test.
class TestHandler : public HttpHandler {
 public:
  std::optional<HttpResponse> Check(const HttpRequest& head) override {
    if (head.path == "/forbidden") return HttpResponse{.status = 401, .body = "no key"};
    return std::nullopt;
  }
  void Handle(HttpExchangePtr exchange) override {
    const HttpRequest& request = exchange->request();
    if (request.path.starts_with("/echo")) {
      exchange->Respond({.body = request.method + " " + request.path + " " + request.body});
      return;
    }
    std::lock_guard lock(mutex_);
    exchange->OnGone([this](GoneReason reason) {
      std::lock_guard lock(mutex_);
      gone_.push_back(reason);
      changed_.notify_all();
    });
    waiting_.push_back(std::move(exchange));
    changed_.notify_all();
  }
  HttpResponse Refuse(const HttpError& error) override {
    return {.status = error.status, .body = "refused: " + error.message};
  }

  HttpExchangePtr NextWaiting() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::milliseconds(kPatienceMs),
                           [&] { return !waiting_.empty(); })) {
      ADD_FAILURE() << "no request came";
      std::abort();
    }
    HttpExchangePtr exchange = waiting_.front();
    waiting_.pop_front();
    return exchange;
  }
  GoneReason NextGone() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::milliseconds(kPatienceMs),
                           [&] { return !gone_.empty(); })) {
      ADD_FAILURE() << "nobody left";
      std::abort();
    }
    GoneReason reason = gone_.front();
    gone_.pop_front();
    return reason;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<HttpExchangePtr> waiting_;
  std::deque<GoneReason> gone_;
};

class HttpServerFixture : public testing::Test {
 protected:
  ~HttpServerFixture() override {
    if (server_ != nullptr) {
      strand_.Run([&] { server_.reset(); });
    }
    io_.Stop();
  }

  void Open(const HttpServerOptions& options = {}) {
    auto server = HttpServer::Open(io_, strand_, {"127.0.0.1", 0}, handler_, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::uint16_t port() const { return server_->address().port; }

  TestHandler handler_;
  IoThreads io_{1};
  Strand strand_{io_};
  std::unique_ptr<HttpServer> server_;
};

}  // namespace tandem::net
