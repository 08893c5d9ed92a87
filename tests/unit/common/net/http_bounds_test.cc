// What an HttpServer gives a client at most: bytes, time, connections.
#include "tests/unit/common/net/http_server_fixture.h"

namespace tandem::net {
namespace {

class HttpBoundsTest : public HttpServerFixture {};

TEST_F(HttpBoundsTest, ABodyOverTheCapIsRefusedAndTheAnswerArrives) {
  Open({.limits = {.body_bytes = 1000}});
  RawClient client(port());
  client.Send("POST /echo HTTP/1.1\r\ncontent-length: 5000000\r\n\r\n");
  client.Send(std::string(5'000'000, 'x'));  // as clients do that send before they read
  client.ShutdownSend();
  std::string answer = client.ReadAll();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 ")) << answer;
  EXPECT_TRUE(answer.ends_with("body exceeds 1000 bytes")) << answer;
}

TEST_F(HttpBoundsTest, BodiesOfAllConnectionsTogetherAreBounded) {
  HttpServerOptions options;
  options.max_bodies_bytes = 500'000;
  Open(options);
  const auto post = [&](RawClient& client, std::string_view path, std::size_t bytes) {
    client.Send(fmt::format("POST {} HTTP/1.1\r\ncontent-length: {}\r\n\r\n", path, bytes));
    client.Send(std::string(bytes, 'x'));
  };
  RawClient first(port());
  post(first, "/wait", 100'000);
  HttpExchangePtr exchange = handler_.NextWaiting();
  HttpBody body = exchange->TakeBody();  // kept by whoever works on it
  EXPECT_EQ(body.bytes.size(), 100'000u);
  RawClient second(port());
  post(second, "/echo", 450'000);
  const std::string answer = second.ReadAll();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
  EXPECT_TRUE(answer.ends_with("exceed 500000 bytes: try again")) << answer;
  body = {};
  strand_.Run([&] {
    EXPECT_EQ(server_->counts().body_bytes, 0u);
    exchange->Respond({.body = "done"});
  });
  RawClient third(port());
  post(third, "/echo", 200'000);
  EXPECT_TRUE(third.ReadTo("/echo ").starts_with("HTTP/1.1 200"));
}

TEST_F(HttpBoundsTest, ASlowHeadAndAStoppedBodyTimeOut) {
  HttpServerOptions options;
  options.header_timeout = std::chrono::milliseconds(20);
  options.stall_timeout = std::chrono::milliseconds(20);
  options.linger = std::chrono::milliseconds(20);
  Open(options);
  RawClient head(port());
  head.Send("GET /echo HT");
  EXPECT_TRUE(head.ReadAll().starts_with("HTTP/1.1 408 "));
  RawClient body(port());
  body.Send("POST /echo HTTP/1.1\r\ncontent-length: 9\r\n\r\nhalf");
  EXPECT_TRUE(body.ReadAll().starts_with("HTTP/1.1 408 "));
}

TEST_F(HttpBoundsTest, AnIdleConnectionIsClosed) {
  HttpServerOptions options;
  options.idle_timeout = std::chrono::milliseconds(20);
  Open(options);
  RawClient silent(port());
  EXPECT_EQ(silent.ReadAll(), "");
  RawClient used(port());
  used.Send("GET /echo HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(used.ReadAll().ends_with("GET /echo "));
}

TEST_F(HttpBoundsTest, ASlowReaderIsCutOffAtABoundedBuffer) {
  HttpServerOptions options;
  options.max_unsent_bytes = 100'000;
  Open(options);
  RawClient client(port(), 4096);
  client.Send("POST /wait HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  const std::string event = "data: " + std::string(10'000, 'x') + "\n\n";
  strand_.Run([&] { exchange->StartStream({.content_type = "text/event-stream"}); });
  bool open = true;
  for (int i = 0; open && i < 10'000; ++i) {  // 100 MB: far beyond the kernel's buffers
    strand_.Run([&] {
      exchange->WriteEvent(event);
      open = exchange->open();
    });
  }
  EXPECT_FALSE(open);
  EXPECT_EQ(handler_.NextGone(), GoneReason::kSlowReader);
}

TEST_F(HttpBoundsTest, ConnectionsOverTheCapWaitForAPlace) {
  HttpServerOptions options;
  options.max_connections = 1;
  Open(options);
  RawClient first(port());
  first.Send("GET /wait HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  RawClient second(port());
  second.Send("GET /echo2 HTTP/1.1\r\n\r\n");
  strand_.Run([&] { EXPECT_EQ(server_->counts().connections, 1u); });
  first.Close();
  EXPECT_TRUE(second.ReadTo("/echo2 ").starts_with("HTTP/1.1 200"));
}

TEST_F(HttpBoundsTest, IdleConnectionsKeepNobodyOut) {
  HttpServerOptions options;
  options.max_connections = 3;
  Open(options);
  RawClient longest(port()), shorter(port());
  for (RawClient* client : {&longest, &shorter}) {
    client->Send("GET /echo HTTP/1.1\r\n\r\n");
    client->ReadTo("/echo ");
  }
  RawClient busy(port());
  busy.Send("POST /wait HTTP/1.1\r\n\r\n");
  HttpExchangePtr exchange = handler_.NextWaiting();
  EXPECT_EQ(longest.ReadAll(), "");  // closed
  RawClient next(port());
  next.Send("GET /echo HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(next.ReadTo("/echo ").starts_with("HTTP/1.1 200"));
  strand_.Run([&] { exchange->Respond({.body = "done"}); });
  EXPECT_TRUE(busy.ReadTo("done").starts_with("HTTP/1.1 200"));
}

TEST_F(HttpBoundsTest, AFullServerSaysThatItCloses) {
  HttpServerOptions options;
  options.max_connections = 1;
  Open(options);
  for (int i = 0; i < 3; ++i) {
    RawClient client(port());
    client.Send("GET /echo HTTP/1.1\r\n\r\n");
    EXPECT_NE(client.ReadAll().find("connection: close"), std::string::npos);
  }
}

TEST_F(HttpBoundsTest, AnAddressWithTooManyConnectionsIsTold) {
  HttpServerOptions options;
  options.max_connections_per_address = 2;
  Open(options);
  RawClient first(port());
  RawClient second(port());
  for (RawClient* client : {&first, &second}) {
    client->Send("GET /echo1 HTTP/1.1\r\n\r\n");
    client->ReadTo("/echo1 ");
  }
  RawClient third(port());
  third.Send("GET /echo2 HTTP/1.1\r\n\r\n");
  const std::string refusal = third.ReadTo("the limit is 2");
  EXPECT_TRUE(refusal.starts_with("HTTP/1.1 429 ")) << refusal;
  EXPECT_NE(refusal.find("connection: close"), std::string::npos) << refusal;
  third.Close();
  strand_.Run([&] { EXPECT_EQ(server_->counts().refused, 1u); });
  first.Close();  // makes room for another
  std::string answer;
  while (!answer.starts_with("HTTP/1.1 200")) {
    RawClient fourth(port());
    fourth.Send("GET /echo4 HTTP/1.1\r\nconnection: close\r\n\r\n");
    answer = fourth.ReadAll();
  }
}

TEST_F(HttpBoundsTest, RefusedConnectionsTakeNoPlaceOfOthers) {
  HttpServerOptions options;
  options.max_connections = 2;
  options.max_connections_per_address = 1;
  Open(options);
  RawClient kept(port());
  kept.Send("GET /echo1 HTTP/1.1\r\n\r\n");
  kept.ReadTo("/echo1 ");
  std::deque<RawClient> refused;
  for (int i = 0; i < 100; ++i) refused.emplace_back(port());
  for (RawClient& client : refused) client.ReadAll();
  strand_.Run([&] { EXPECT_EQ(server_->counts().refused, 100u); });
  refused.clear();
  kept.Send("GET /echo2 HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(kept.ReadTo("/echo2 ").starts_with("HTTP/1.1 200"));
}

}  // namespace
}  // namespace tandem::net
