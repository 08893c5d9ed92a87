#include "common/net/http_server.h"

#include <future>

#include "common/base/random.h"
#include "tests/unit/common/net/http_server_fixture.h"

namespace tandem::net {
namespace {

class HttpServerTest : public HttpServerFixture {};

TEST_F(HttpServerTest, AnswersSeveralRequestsOnOneConnection) {
  Open();
  RawClient client(port());
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
  RawClient client(port());
  std::string requests = "GET /wait HTTP/1.1\r\n\r\n";
  for (int i = 0; i < 5; ++i) requests += fmt::format("GET /echo{} HTTP/1.1\r\n\r\n", i);
  client.Send(requests);
  HttpExchangePtr first = handler_.NextWaiting();
  strand_.Run([&] { first->Respond({.body = "the first"}); });
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
  RawClient client(port());
  client.Send("HEAD /echo HTTP/1.1\r\n\r\nGET /echo HTTP/1.1\r\nconnection: close\r\n\r\n");
  std::string answers = client.ReadAll();
  EXPECT_NE(answers.find("content-length: 10\r\n"), std::string::npos) << answers;
  EXPECT_EQ(answers.find("\r\n\r\nGET"), answers.rfind("\r\n\r\nGET")) << answers;
  EXPECT_TRUE(answers.ends_with("\r\n\r\nGET /echo ")) << answers;
}

TEST_F(HttpServerTest, ReadsChunkedBodies) {
  Open();
  RawClient client(port());
  client.Send("POST /echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n");
  client.Send("4\r\ndefg\r\n0\r\n\r\n");
  EXPECT_TRUE(client.ReadTo("abcdefg").ends_with("POST /echo abcdefg"));
}

TEST_F(HttpServerTest, AnswersExpectContinueBeforeTheBody) {
  Open();
  RawClient client(port());
  client.Send("POST /echo HTTP/1.1\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReadTo("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("hi");
  EXPECT_TRUE(client.ReadTo("echo hi").starts_with("HTTP/1.1 200 OK"));
}

TEST_F(HttpServerTest, RefusesBeforeTheBodyInsteadOfContinue) {
  Open();
  {
    RawClient client(port());
    client.Send("POST /forbidden HTTP/1.1\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n");
    std::string answer = client.ReadTo("no key");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 401 Unauthorized\r\n")) << answer;
    EXPECT_NE(answer.find("connection: close"), std::string::npos);
  }
  RawClient client(port());
  client.Send("POST /echo HTTP/1.1\r\ncontent-length: 99999999\r\nexpect: 100-continue\r\n\r\n");
  EXPECT_TRUE(client.ReadTo("bytes").starts_with("HTTP/1.1 413 Content Too Large\r\n"));
}

TEST_F(HttpServerTest, StreamsEachEventAsOneChunk) {
  Open();
  RawClient client(port());
  client.Send("POST /stream HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  strand_.Run([&] {
    exchange->StartStream({.content_type = "text/event-stream"});
    exchange->WriteEvent("data: one\n\n");
  });
  std::string head = client.ReadTo("\r\n\r\n");
  EXPECT_NE(head.find("transfer-encoding: chunked\r\n"), std::string::npos) << head;
  EXPECT_EQ(client.ReadTo("one\n\n\r\n"), "b\r\ndata: one\n\n\r\n");
  strand_.Run([&] {
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
  RawClient client(port());
  client.Send("POST /stream HTTP/1.0\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  strand_.Run([&] {
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
    RawClient client(port());
    client.Send("POST /wait HTTP/1.1\r\n\r\n");
    HttpExchangePtr exchange = handler_.NextWaiting();
    half_close ? client.ShutdownSend() : client.Close();
    EXPECT_EQ(handler_.NextGone(), GoneReason::kDisconnected);
    strand_.Run([&] {
      EXPECT_FALSE(exchange->open());
      exchange->Respond({.body = "to nobody"});  // dropped
    });
  }
}

TEST_F(HttpServerTest, NoticesAClientThatLeavesInTheMiddleOfAStream) {
  Open();
  RawClient client(port());
  client.Send("POST /wait HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  strand_.Run([&] {
    exchange->StartStream({.content_type = "text/event-stream"});
    exchange->WriteEvent("data: one\n\n");
  });
  client.ReadTo("one");
  client.Close();
  EXPECT_EQ(handler_.NextGone(), GoneReason::kDisconnected);
}

TEST_F(HttpServerTest, StopEndsIdleConnectionsAndFinishesTheOthers) {
  Open();
  RawClient idle(port());
  idle.Send("GET /echo HTTP/1.1\r\n\r\n");
  idle.ReadTo("GET /echo ");
  RawClient busy(port());
  busy.Send("POST /wait HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  std::promise<void> stopped;
  strand_.Run([&] { server_->Stop([&] { stopped.set_value(); }); });
  EXPECT_EQ(idle.ReadAll(), "");
  strand_.Run([&] {
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
  RawClient client(port());
  client.Send("POST /wait HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  strand_.Run([&] { server_->Close(); });
  EXPECT_EQ(handler_.NextGone(), GoneReason::kStopped);
  EXPECT_EQ(client.ReadAll(), "");
}

TEST_F(HttpServerTest, TellsWhatTheSocketHasTaken) {
  Open();
  RawClient client(port(), 4096);
  client.Send("POST /wait HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  const std::string event(500'000, 'x');
  std::promise<void> taken;
  strand_.Run([&] {
    exchange->StartStream({.content_type = "text/event-stream"});
    exchange->OnTaken([&, told = false]() mutable {
      if (exchange->unsent_bytes() == 0 && !std::exchange(told, true)) taken.set_value();
    });
    exchange->WriteEvent(event);
    EXPECT_GE(exchange->unsent_bytes(), event.size());
  });
  client.ReadTo(event);
  taken.get_future().wait();
  strand_.Run([&] { exchange->EndStream(); });
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
    RawClient client(port());
    std::string bytes;
    for (std::uint64_t n = random.Below(200); n > 0; --n) {
      bytes += static_cast<char>(random.Below(256));
    }
    client.Send((random.Below(2) ? "POST /echo HTTP/1.1\r\n" : "") + bytes);
    client.ShutdownSend();
    client.ReadAll();
  }
  RawClient client(port());
  client.Send("GET /echo HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(client.ReadTo("GET /echo ").starts_with("HTTP/1.1 200"));
}

}  // namespace
}  // namespace tandem::net
