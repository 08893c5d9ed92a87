#include "common/net/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/base/scoped_fd.h"

namespace tandem::net {
namespace {

constexpr int kPatienceMs = 60'000;  // a bound on hanging, not on speed

// A raw client: what it sends is sent as it is.
class Client {
 public:
  explicit Client(std::uint16_t port, int receive_buffer = 0)
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

class HttpServerTest : public testing::Test {
 protected:
  ~HttpServerTest() override {
    if (server_ != nullptr) {
      OnStrand([&] { server_.reset(); });
    }
    io_.Stop();
  }

  void Open(const HttpServerOptions& options = {}) {
    auto server = HttpServer::Open(io_, strand_, {"127.0.0.1", 0}, handler_, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::uint16_t port() const { return server_->address().port; }

  template <typename F>
  void OnStrand(F f) {
    std::promise<void> done;
    strand_.Post([&] {
      f();
      done.set_value();
    });
    done.get_future().wait();
  }

  TestHandler handler_;
  IoThreads io_{1};
  Strand strand_{io_};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersSeveralRequestsOnOneConnection) {
  Open();
  Client client(port());
  for (int i = 0; i < 3; ++i) {
    client.Send("POST /echo HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi");
    std::string answer = client.ReadTo("POST /echo hi");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_NE(answer.find("content-length: 13\r\n"), std::string::npos) << answer;
    EXPECT_NE(answer.find("connection: keep-alive\r\n"), std::string::npos) << answer;
  }
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  Open();
  Client client(port());
  std::string requests = "GET /wait HTTP/1.1\r\n\r\n";
  for (int i = 0; i < 5; ++i) requests += fmt::format("GET /echo{} HTTP/1.1\r\n\r\n", i);
  client.Send(requests);
  HttpExchangePtr first = handler_.NextWaiting();
  OnStrand([&] { first->Respond({.body = "the first"}); });
  std::string answers = client.ReadTo("/echo4 ");
  std::size_t at = answers.find("the first");
  for (int i = 0; i < 5; ++i) {
    std::size_t next = answers.find("GET /echo" + std::to_string(i));
    ASSERT_NE(next, std::string::npos) << i << answers;
    EXPECT_GT(next, at);
    at = next;
  }
}

TEST_F(HttpServerTest, HeadHasLengthButNoBody) {
  Open();
  Client client(port());
  client.Send("HEAD /echo HTTP/1.1\r\n\r\nGET /echo HTTP/1.1\r\nconnection: close\r\n\r\n");
  std::string answers = client.ReadAll();
  EXPECT_NE(answers.find("content-length: 10\r\n"), std::string::npos) << answers;
  EXPECT_EQ(answers.find("\r\n\r\nGET"), answers.rfind("\r\n\r\nGET")) << answers;
  EXPECT_TRUE(answers.ends_with("\r\n\r\nGET /echo ")) << answers;
}

TEST_F(HttpServerTest, ReadsChunkedBodies) {
  Open();
  Client client(port());
  client.Send("POST /echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n");
  client.Send("4\r\ndefg\r\n0\r\n\r\n");
  EXPECT_TRUE(client.ReadTo("abcdefg").ends_with("POST /echo abcdefg"));
}

TEST_F(HttpServerTest, AnswersExpectContinueBeforeTheBody) {
  Open();
  Client client(port());
  client.Send("POST /echo HTTP/1.1\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReadTo("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("hi");
  EXPECT_TRUE(client.ReadTo("echo hi").starts_with("HTTP/1.1 200 OK"));
}

TEST_F(HttpServerTest, RefusesBeforeTheBodyInsteadOfContinue) {
  Open();
  {
    Client client(port());
    client.Send("POST /forbidden HTTP/1.1\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n");
    std::string answer = client.ReadTo("no key");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 401 Unauthorized\r\n")) << answer;
    EXPECT_NE(answer.find("connection: close"), std::string::npos);
  }
  Client client(port());
  client.Send("POST /echo HTTP/1.1\r\ncontent-length: 99999999\r\nexpect: 100-continue\r\n\r\n");
  EXPECT_TRUE(client.ReadTo("bytes").starts_with("HTTP/1.1 413 Content Too Large\r\n"));
}

TEST_F(HttpServerTest, ABodyOverTheCapIsRefusedAndTheAnswerArrives) {
  Open({.limits = {.body_bytes = 1000}});
  Client client(port());
  client.Send("POST /echo HTTP/1.1\r\ncontent-length: 5000000\r\n\r\n");
  client.Send(std::string(5'000'000, 'x'));  // as clients do that send before they read
  client.ShutdownSend();
  std::string answer = client.ReadAll();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 ")) << answer;
  EXPECT_TRUE(answer.ends_with("body exceeds 1000 bytes")) << answer;
}

TEST_F(HttpServerTest, BodiesOfAllConnectionsTogetherAreBounded) {
  HttpServerOptions options;
  options.max_bodies_bytes = 500'000;
  Open(options);
  const auto post = [&](Client& client, std::string_view path, std::size_t bytes) {
    client.Send(fmt::format("POST {} HTTP/1.1\r\ncontent-length: {}\r\n\r\n", path, bytes));
    client.Send(std::string(bytes, 'x'));
  };
  Client first(port());
  post(first, "/wait", 100'000);
  HttpExchangePtr exchange = handler_.NextWaiting();
  HttpBody body = exchange->TakeBody();  // kept by whoever works on it
  EXPECT_EQ(body.bytes.size(), 100'000u);
  Client second(port());
  post(second, "/echo", 450'000);
  const std::string answer = second.ReadAll();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
  EXPECT_TRUE(answer.ends_with("exceed 500000 bytes: try again")) << answer;
  body = {};
  OnStrand([&] {
    EXPECT_EQ(server_->counts().body_bytes, 0u);
    exchange->Respond({.body = "done"});
  });
  Client third(port());
  post(third, "/echo", 200'000);
  EXPECT_TRUE(third.ReadTo("/echo ").starts_with("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, ASlowHeadAndAStoppedBodyTimeOut) {
  HttpServerOptions options;
  options.header_timeout = std::chrono::milliseconds(20);
  options.stall_timeout = std::chrono::milliseconds(20);
  options.linger = std::chrono::milliseconds(20);
  Open(options);
  Client head(port());
  head.Send("GET /echo HT");
  EXPECT_TRUE(head.ReadAll().starts_with("HTTP/1.1 408 "));
  Client body(port());
  body.Send("POST /echo HTTP/1.1\r\ncontent-length: 9\r\n\r\nhalf");
  EXPECT_TRUE(body.ReadAll().starts_with("HTTP/1.1 408 "));
}

TEST_F(HttpServerTest, AnIdleConnectionIsClosed) {
  HttpServerOptions options;
  options.idle_timeout = std::chrono::milliseconds(20);
  Open(options);
  Client silent(port());
  EXPECT_EQ(silent.ReadAll(), "");
  Client used(port());
  used.Send("GET /echo HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(used.ReadAll().ends_with("GET /echo "));
}

TEST_F(HttpServerTest, StreamsEachEventAsOneChunk) {
  Open();
  Client client(port());
  client.Send("POST /stream HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  OnStrand([&] {
    exchange->StartStream({.content_type = "text/event-stream"});
    exchange->WriteEvent("data: one\n\n");
  });
  std::string head = client.ReadTo("\r\n\r\n");
  EXPECT_NE(head.find("transfer-encoding: chunked\r\n"), std::string::npos) << head;
  EXPECT_EQ(client.ReadTo("one\n\n\r\n"), "b\r\ndata: one\n\n\r\n");
  OnStrand([&] {
    exchange->WriteEvent("data: two\n\n");
    exchange->EndStream();
    EXPECT_FALSE(exchange->open());
  });
  EXPECT_EQ(client.ReadTo("0\r\n\r\n"), "b\r\ndata: two\n\n\r\n0\r\n\r\n");
  client.Send("GET /echo HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(client.ReadTo("GET /echo ").starts_with("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, StreamsToHttp10UntilTheEndOfTheConnection) {
  Open();
  Client client(port());
  client.Send("POST /stream HTTP/1.0\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  OnStrand([&] {
    exchange->StartStream({.content_type = "text/event-stream"});
    exchange->WriteEvent("data: one\n\n");
    exchange->EndStream();
  });
  std::string answer = client.ReadAll();
  EXPECT_EQ(answer.find("chunked"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\ndata: one\n\n")) << answer;
}

TEST_F(HttpServerTest, NoticesAClientThatLeavesWhileItWaits) {
  Open();
  for (bool half_close : {false, true}) {
    Client client(port());
    client.Send("POST /wait HTTP/1.1\r\n\r\n");
    HttpExchangePtr exchange = handler_.NextWaiting();
    half_close ? client.ShutdownSend() : client.Close();
    EXPECT_EQ(handler_.NextGone(), GoneReason::kDisconnected);
    OnStrand([&] {
      EXPECT_FALSE(exchange->open());
      exchange->Respond({.body = "to nobody"});  // dropped
    });
  }
}

TEST_F(HttpServerTest, NoticesAClientThatLeavesInTheMiddleOfAStream) {
  Open();
  Client client(port());
  client.Send("POST /wait HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  OnStrand([&] {
    exchange->StartStream({.content_type = "text/event-stream"});
    exchange->WriteEvent("data: one\n\n");
  });
  client.ReadTo("one");
  client.Close();
  EXPECT_EQ(handler_.NextGone(), GoneReason::kDisconnected);
}

TEST_F(HttpServerTest, ASlowReaderIsCutOffAtABoundedBuffer) {
  HttpServerOptions options;
  options.max_unsent_bytes = 100'000;
  Open(options);
  Client client(port(), 4096);
  client.Send("POST /wait HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  const std::string event = "data: " + std::string(10'000, 'x') + "\n\n";
  OnStrand([&] { exchange->StartStream({.content_type = "text/event-stream"}); });
  bool open = true;
  for (int i = 0; open && i < 10'000; ++i) {  // 100 MB: far beyond the kernel's buffers
    OnStrand([&] {
      exchange->WriteEvent(event);
      open = exchange->open();
    });
  }
  EXPECT_FALSE(open);
  EXPECT_EQ(handler_.NextGone(), GoneReason::kSlowReader);
}

TEST_F(HttpServerTest, StopEndsIdleConnectionsAndFinishesTheOthers) {
  Open();
  Client idle(port());
  idle.Send("GET /echo HTTP/1.1\r\n\r\n");
  idle.ReadTo("GET /echo ");
  Client busy(port());
  busy.Send("POST /wait HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  std::promise<void> stopped;
  OnStrand([&] { server_->Stop([&] { stopped.set_value(); }); });
  EXPECT_EQ(idle.ReadAll(), "");
  OnStrand([&] {
    EXPECT_EQ(server_->counts().exchanges, 1u);
    exchange->Respond({.body = "the last"});
  });
  std::string answer = busy.ReadAll();
  EXPECT_TRUE(answer.ends_with("the last")) << answer;
  EXPECT_NE(answer.find("connection: close"), std::string::npos);
  stopped.get_future().wait();
}

TEST_F(HttpServerTest, CloseTellsThoseThatWait) {
  Open();
  Client client(port());
  client.Send("POST /wait HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  OnStrand([&] { server_->Close(); });
  EXPECT_EQ(handler_.NextGone(), GoneReason::kStopped);
  EXPECT_EQ(client.ReadAll(), "");
}

TEST_F(HttpServerTest, ConnectionsOverTheCapWaitForAPlace) {
  HttpServerOptions options;
  options.max_connections = 1;
  Open(options);
  Client first(port());
  first.Send("GET /wait HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  Client second(port());
  second.Send("GET /echo2 HTTP/1.1\r\n\r\n");
  OnStrand([&] { EXPECT_EQ(server_->counts().connections, 1u); });
  first.Close();
  EXPECT_TRUE(second.ReadTo("/echo2 ").starts_with("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, IdleConnectionsKeepNobodyOut) {
  HttpServerOptions options;
  options.max_connections = 3;
  Open(options);
  Client longest(port()), shorter(port());
  for (Client* client : {&longest, &shorter}) {
    client->Send("GET /echo HTTP/1.1\r\n\r\n");
    client->ReadTo("/echo ");
  }
  Client busy(port());
  busy.Send("POST /wait HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  EXPECT_EQ(longest.ReadAll(), "");  // closed
  Client next(port());
  next.Send("GET /echo HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(next.ReadTo("/echo ").starts_with("HTTP/1.1 200"));
  OnStrand([&] { exchange->Respond({.body = "done"}); });
  EXPECT_TRUE(busy.ReadTo("done").starts_with("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, AFullServerSaysThatItCloses) {
  HttpServerOptions options;
  options.max_connections = 1;
  Open(options);
  for (int i = 0; i < 3; ++i) {
    Client client(port());
    client.Send("GET /echo HTTP/1.1\r\n\r\n");
    EXPECT_NE(client.ReadAll().find("connection: close"), std::string::npos);
  }
}

TEST_F(HttpServerTest, AnAddressWithTooManyConnectionsIsTold) {
  HttpServerOptions options;
  options.max_connections_per_address = 2;
  Open(options);
  Client first(port());
  Client second(port());
  for (Client* client : {&first, &second}) {
    client->Send("GET /echo1 HTTP/1.1\r\n\r\n");
    client->ReadTo("/echo1 ");
  }
  Client third(port());
  third.Send("GET /echo2 HTTP/1.1\r\n\r\n");
  const std::string refusal = third.ReadTo("the limit is 2");
  EXPECT_TRUE(refusal.starts_with("HTTP/1.1 429 ")) << refusal;
  EXPECT_NE(refusal.find("connection: close"), std::string::npos) << refusal;
  third.Close();
  OnStrand([&] { EXPECT_EQ(server_->counts().refused, 1u); });
  first.Close();  // makes room for another
  std::string answer;
  while (!answer.starts_with("HTTP/1.1 200")) {
    Client fourth(port());
    fourth.Send("GET /echo4 HTTP/1.1\r\nconnection: close\r\n\r\n");
    answer = fourth.ReadAll();
  }
}

TEST_F(HttpServerTest, RefusedConnectionsTakeNoPlaceOfOthers) {
  HttpServerOptions options;
  options.max_connections = 2;
  options.max_connections_per_address = 1;
  Open(options);
  Client kept(port());
  kept.Send("GET /echo1 HTTP/1.1\r\n\r\n");
  kept.ReadTo("/echo1 ");
  std::deque<Client> refused;
  for (int i = 0; i < 100; ++i) refused.emplace_back(port());
  for (Client& client : refused) client.ReadAll();
  OnStrand([&] { EXPECT_EQ(server_->counts().refused, 100u); });
  refused.clear();
  kept.Send("GET /echo2 HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(kept.ReadTo("/echo2 ").starts_with("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, TellsWhatTheSocketHasTaken) {
  Open();
  Client client(port(), 4096);
  client.Send("POST /wait HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  const std::string event(500'000, 'x');
  std::promise<void> taken;
  OnStrand([&] {
    exchange->StartStream({.content_type = "text/event-stream"});
    exchange->OnTaken([&, told = false]() mutable {
      if (exchange->unsent_bytes() == 0 && !std::exchange(told, true)) taken.set_value();
    });
    exchange->WriteEvent(event);
    EXPECT_GE(exchange->unsent_bytes(), event.size());
  });
  client.ReadTo(event);
  taken.get_future().wait();
  OnStrand([&] { exchange->EndStream(); });
}

TEST_F(HttpServerTest, TwoServersCannotShareAPort) {
  Open();
  auto second = HttpServer::Open(io_, strand_, {"127.0.0.1", port()}, handler_, {});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(FromAbsl(second.status().message()).find(std::to_string(port())), std::string::npos);
}

TEST_F(HttpServerTest, SurvivesRandomBytes) {
  HttpServerOptions options;
  options.linger = std::chrono::milliseconds(1);
  Open(options);
  SplitMix64 random(11);
  for (int round = 0; round < 200; ++round) {
    Client client(port());
    std::string bytes;
    for (std::uint64_t n = random.Below(200); n > 0; --n) {
      bytes += static_cast<char>(random.Below(256));
    }
    client.Send((random.Below(2) ? "POST /echo HTTP/1.1\r\n" : "") + bytes);
    client.ShutdownSend();
    client.ReadAll();
  }
  Client client(port());
  client.Send("GET /echo HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(client.ReadTo("GET /echo ").starts_with("HTTP/1.1 200"));
}

}  // namespace
}  // namespace tandem::net
