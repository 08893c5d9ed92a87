#include "common/client/openai_client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "common/base/scoped_fd.h"

namespace tandem::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Accepts one connection, reads one request, writes `answer`, then waits for the peer to close (or
// closes at once).
class OneAnswerServer {
 public:
  enum class Then { kClose, kWaitForPeer };

  OneAnswerServer(std::string answer, Then then) {
    listener_ = ScopedFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    socklen_t length = sizeof address;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, answer = std::move(answer), then] { Serve(answer, then); });
  }
  ~OneAnswerServer() { thread_.join(); }

  std::string url() const { return fmt::format("http://127.0.0.1:{}/v1/", port_); }
  // After destruction of the client's connection: what it sent.
  const std::string& request() const { return request_; }
  void Join() {
    thread_.join();
    thread_ = std::thread([] {});
  }

 private:
  void Serve(const std::string& answer, Then then) {
    ScopedFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    char buffer[4096];
    while (!RequestComplete()) {
      const ssize_t n = ::read(peer.get(), buffer, sizeof buffer);
      if (n <= 0) return;
      request_.append(buffer, static_cast<std::size_t>(n));
    }
    EXPECT_EQ(::write(peer.get(), answer.data(), answer.size()),
              static_cast<ssize_t>(answer.size()));
    if (then == Then::kWaitForPeer) {
      while (::read(peer.get(), buffer, sizeof buffer) > 0) {
      }
    }
  }
  bool RequestComplete() const {
    const std::size_t head = request_.find("\r\n\r\n");
    if (head == std::string::npos) return false;
    const std::size_t at = request_.find("Content-Length: ");
    const std::size_t body = at == std::string::npos ? 0 : std::stoul(request_.substr(at + 16));
    return request_.size() >= head + 4 + body;
  }

  ScopedFd listener_;
  int port_ = 0;
  std::string request_;
  std::thread thread_;
};

std::string Http(int code, const std::string& type, const std::string& body) {
  return fmt::format("HTTP/1.1 {} X\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}", code,
                     type, body.size(), body);
}

std::unique_ptr<OpenAiClient> Client(const std::string& url, const std::string& key = {}) {
  HttpClient::Options options;
  options.base_url = url;
  options.api_key = key;
  return *OpenAiClient::Create(options);
}

TEST(OpenAiClient, ListsModels) {
  OneAnswerServer server(Http(200, "application/json", R"({"data":[{"id":"a"},{"id":"b"}]})"),
                         OneAnswerServer::Then::kClose);
  EXPECT_THAT(*Client(server.url(), "secret")->Models(), ElementsAre("a", "b"));
  server.Join();
  EXPECT_THAT(server.request(), HasSubstr("GET /v1/models HTTP/1.1"));
  EXPECT_THAT(server.request(), HasSubstr("Authorization: Bearer secret"));
}

TEST(OpenAiClient, StreamsTextUsageAndTimings) {
  const std::string body =
      "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"Par\"}}]}\n\n"
      "data: "
      "{\"choices\":[{\"delta\":{\"content\":\"is\"},\"finish_reason\":\"stop\"}],\"usage\":null}"
      "\n\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3},\"timings\":{\"ttft_ms\":1.5}}\n\n"
      "data: [DONE]\n\n";
  OneAnswerServer server(Http(200, "text/event-stream", body), OneAnswerServer::Then::kClose);
  std::vector<std::string> pieces;
  ChatRequest request{"m", {{"user", "capital?"}}, {{"temperature", 0}}};
  auto answer =
      Client(server.url())->Chat(request, [&](std::string_view t) { pieces.emplace_back(t); });
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(pieces, ElementsAre("Par", "is"));
  EXPECT_EQ(answer->text, "Paris");
  EXPECT_EQ(answer->finish_reason, "stop");
  EXPECT_EQ(answer->usage.at("prompt_tokens").as_int64(), 3);
  EXPECT_EQ(answer->timings.at("ttft_ms").as_double(), 1.5);
  server.Join();
  EXPECT_THAT(server.request(), HasSubstr(R"("messages":[{"role":"user","content":"capital?"}])"));
  EXPECT_THAT(server.request(), HasSubstr(R"("temperature":0)"));
}

TEST(OpenAiClient, TellsTheServersErrorMessage) {
  OneAnswerServer server(
      Http(404, "application/json", R"({"error":{"message":"no model 'x'; served: a"}})"),
      OneAnswerServer::Then::kClose);
  auto answer = Client(server.url())->Chat({"x", {{"user", "?"}}, {}}, [](std::string_view) {});
  EXPECT_TRUE(absl::IsNotFound(answer.status()));
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("no model 'x'; served: a"));
}

TEST(OpenAiClient, StreamThatStopsShortIsAnError) {
  OneAnswerServer server(
      Http(200, "text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"),
      OneAnswerServer::Then::kClose);
  auto answer = Client(server.url())->Chat({"m", {{"user", "?"}}, {}}, [](std::string_view) {});
  EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
}

TEST(OpenAiClient, ErrorInsideTheStreamIsAnError) {
  OneAnswerServer server(Http(200, "text/event-stream",
                              "data: {\"error\":{\"message\":\"deadline\"}}\n\ndata: [DONE]\n\n"),
                         OneAnswerServer::Then::kClose);
  auto answer = Client(server.url())->Chat({"m", {{"user", "?"}}, {}}, [](std::string_view) {});
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("deadline"));
}

TEST(OpenAiClient, CancelClosesTheConnection) {
  OneAnswerServer server(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
      "35\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"endless\"}}]}\n\n\r\n",
      OneAnswerServer::Then::kWaitForPeer);
  auto client = Client(server.url());
  auto answer =
      client->Chat({"m", {{"user", "?"}}, {}}, [&](std::string_view) { client->Cancel(); });
  EXPECT_TRUE(absl::IsCancelled(answer.status())) << answer.status();
  client.reset();
  server.Join();  // returns only because the connection was closed
}

TEST(OpenAiClient, NobodyListeningIsUnavailable) {
  ScopedFd taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(taken.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  socklen_t length = sizeof address;
  ::getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &length);
  const auto url = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port));
  EXPECT_TRUE(absl::IsUnavailable(Client(url)->Models().status()));
}

TEST(HttpClient, RefusesWhatIsNoUrl) {
  EXPECT_TRUE(absl::IsInvalidArgument(HttpClient::Create({.base_url = "localhost:8000"}).status()));
}

}  // namespace
}  // namespace tandem::client
