// The API behind a real server and a real socket, over a backend that the test drives.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "common/base/scoped_fd.h"
#include "common/net/http_server.h"
#include "router/api/api_handler.h"
#include "tests/unit/router/api/fakes.h"
#include "tests/unit/router/api/test_served_model.h"

namespace tandem::router {
namespace {

class ApiServerTest : public ::testing::Test {
 protected:
  ApiServerTest()
      : model_(MakeServedModel("")),
        context_{.model = model_,
                 .backend = backend_,
                 .work = work_,
                 .strand = strand_,
                 .probe = probe_,
                 .deadline = std::chrono::minutes(1),
                 .inline_bytes = 16 << 10,
                 .random = [] { return std::uint64_t{5}; },
                 .unix_time_s = [] { return 1234; }},
        handler_(context_, keys_, registry_, "0.0.1") {
    net::HttpServerOptions options;
    options.limits.body_bytes = 1000;
    auto server = net::HttpServer::Open(io_, strand_, {"127.0.0.1", 0}, handler_, options);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    Connect();
  }
  ~ApiServerTest() override {
    strand_.Run([&] { server_.reset(); });
    io_.Stop();
  }

  void Connect() {
    socket_ = ScopedFd(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->address().port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  void Post(std::string_view path, std::string_view body, std::string_view headers = {}) {
    Send(
        fmt::format("POST {} HTTP/1.1\r\nauthorization: Bearer key\r\n"
                    "content-type: application/json\r\n{}content-length: {}\r\n\r\n{}",
                    path, headers, body.size(), body));
  }
  void Send(std::string_view bytes) {
    ASSERT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string ReadTo(std::string_view end) {
    std::string out;
    while (!out.ends_with(end)) {
      pollfd poll_fd{socket_.get(), POLLIN, 0};
      char byte;
      if (::poll(&poll_fd, 1, 60'000) != 1 || ::recv(socket_.get(), &byte, 1, 0) != 1) {
        ADD_FAILURE() << "the answer ended: " << out;
        break;
      }
      out += byte;
    }
    return out;
  }
  void WaitFor(const std::function<bool()>& what) {
    for (bool there = false; !there;) strand_.Run([&] { there = what(); });
  }

  metrics::Registry registry_;
  ApiProbe probe_{registry_};
  FakeBackend backend_;
  ServedModel model_;
  ApiKeys keys_{{"key"}};
  net::IoThreads io_{1};
  net::Strand strand_{io_};
  WorkQueue work_{4};
  CallContext context_;
  ApiHandler handler_;
  std::unique_ptr<net::HttpServer> server_;
  ScopedFd socket_;
};

TEST_F(ApiServerTest, AStreamIsWholeEventsInChunksAndEndsAtOnce) {
  Post("/v1/completions", R"({"prompt":"Hello","stream":true})", "x-request-id: mine\r\n");
  WaitFor([&] { return backend_.running.size() == 1; });
  const TokenIds hi = ByteTokens(model_, "Hi");
  strand_.Run([&] { backend_.Give(hi); });
  const std::string head = ReadTo("\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")) << head;
  EXPECT_NE(head.find("cache-control: no-cache\r\n"), std::string::npos);
  EXPECT_NE(head.find("x-accel-buffering: no\r\n"), std::string::npos);
  EXPECT_NE(head.find("x-request-id: mine\r\n"), std::string::npos);
  const std::string size = ReadTo("\r\n");
  const std::string event = ReadTo("\n\n\r\n");
  EXPECT_EQ(std::stoul(size, nullptr, 16) + 2, event.size());
  EXPECT_TRUE(event.starts_with("data: {")) << event;
  strand_.Run([&] { backend_.Finish(sequence::FinishReason::kLength); });
  EXPECT_NE(ReadTo("\r\n0\r\n\r\n").find("data: [DONE]\n\n"), std::string::npos);
  // And the connection serves the next request.
  Send("GET /health/live HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(ReadTo("alive\"}").starts_with("HTTP/1.1 200 OK"));
}

TEST_F(ApiServerTest, AClientThatClosesIsCancelled) {
  Post("/v1/completions", R"({"prompt":"Hello","stream":true})");
  WaitFor([&] { return backend_.running.size() == 1; });
  socket_.Reset();
  WaitFor([&] { return backend_.clients_gone == 1; });
  EXPECT_NE(registry_.Text().find("status=\"499\"} 1"), std::string::npos);
}

TEST_F(ApiServerTest, RefusalsAreJsonErrors) {
  struct Case {
    std::string request;
    int status;
  };
  const std::string key = "authorization: Bearer key\r\n";
  for (const Case& c : {
           Case{"GET /v1/models HTTP/1.1\r\n\r\n", 401},
           Case{"GET /nowhere HTTP/1.1\r\n" + key + "\r\n", 404},
           Case{"GET /v1/completions HTTP/1.1\r\n" + key + "\r\n", 405},
           Case{"POST /v1/completions HTTP/1.1\r\n" + key +
                    "content-type: text/plain\r\ncontent-length: 2\r\n\r\n{}",
                415},
           Case{"POST /v1/completions HTTP/1.1\r\n" + key + "content-length: 1001\r\n\r\n", 413},
           Case{"POST /v1/completions HTTP/1.1\r\n" + key + "content-length: 2\r\n\r\n{]", 400},
           Case{"nonsense\r\n\r\n", 400},
       }) {
    Connect();
    Send(c.request);
    const std::string answer = ReadTo("}}");
    EXPECT_TRUE(answer.starts_with(fmt::format("HTTP/1.1 {} ", c.status))) << answer;
    for (const char* field : {"{\"error\":{\"message\":", "\"type\":", "\"param\":", "\"code\":"}) {
      EXPECT_NE(answer.find(field), std::string::npos) << answer;
    }
  }
}

}  // namespace
}  // namespace tandem::router
