#include "common/client/request_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/testing/scripted_server.h"

namespace tandem::client {
namespace {

using testing::ScriptedServer;
using Answer = ScriptedServer::Answer;
using Then = ScriptedServer::Then;
using End = RequestPool::End;

class Recorder : public RequestPool::Sink {
 public:
  void OnStatus(int status) override { this->status = status; }
  bool OnBody(std::string_view bytes) override {
    body += bytes;
    return !abort;
  }
  void OnEnd(const RequestPool::Ended& ended) override {
    ++ends;
    last = ended;
  }

  bool abort = false;
  int status = 0;
  int ends = 0;
  std::string body;
  RequestPool::Ended last;
};

std::unique_ptr<RequestPool> Pool(const std::string& url, Duration timeout = Duration::zero()) {
  return *RequestPool::Create({.server = {.base_url = url}, .request_timeout = timeout});
}

void RunAll(RequestPool& pool) {
  while (pool.running() > 0) pool.Poll(SteadyNow() + std::chrono::seconds(60));
}

// What becomes of one request that is answered so.
Recorder Ask(const Answer& answer, Duration timeout = Duration::zero()) {
  ScriptedServer server([&](const ScriptedServer::Request&) { return answer; });
  auto pool = Pool(server.url(), timeout);
  Recorder recorder;
  pool->Start("/v1/completions", "{}", recorder);
  RunAll(*pool);
  EXPECT_EQ(recorder.ends, 1);
  return recorder;
}

TEST(RequestPool, PostsAndReadsTheAnswer) {
  std::string path, head, body;
  ScriptedServer server([&](const ScriptedServer::Request& request) {
    path = request.path;
    head = request.head;
    body = request.body;
    return Answer{ScriptedServer::Stream({"one", "two"})};
  });
  auto pool = *RequestPool::Create({.server = {.base_url = server.url() + "/v1", .api_key = "k"}});
  Recorder recorder;
  pool->Start("/v1/completions", R"({"x":1})", recorder);
  RunAll(*pool);
  EXPECT_EQ(recorder.last.end, End::kComplete);
  EXPECT_EQ(recorder.status, 200);
  EXPECT_EQ(recorder.body, "onetwo");
  EXPECT_EQ(path, "/v1/completions");
  EXPECT_EQ(body, R"({"x":1})");
  EXPECT_THAT(head, ::testing::HasSubstr("Authorization: Bearer k"));
}

TEST(RequestPool, TellsHowARequestEnded) {
  const std::string begun = ScriptedServer::Stream({"begun"}, false);
  EXPECT_EQ(Ask({begun, Then::kClose}).last.end, End::kEndedEarly);
  EXPECT_EQ(Ask({begun, Then::kReset}).last.end, End::kReset);
  EXPECT_EQ(Ask({"", Then::kClose}).last.end, End::kEndedEarly);
  EXPECT_EQ(Ask({"", Then::kReset}).last.end, End::kReset);
  EXPECT_EQ(Ask({begun, Then::kHang}, std::chrono::milliseconds(50)).last.end, End::kTimeout);
  const Recorder refused = Ask({ScriptedServer::Whole(429, "")});
  EXPECT_EQ(refused.last.end, End::kComplete);
  EXPECT_EQ(refused.status, 429);  // an empty body has a status too
}

TEST(RequestPool, NobodyListeningIsRefused) {
  std::string url;
  {
    ScriptedServer gone([](const ScriptedServer::Request&) { return Answer{}; });
    url = gone.url();
  }
  auto pool = Pool(url);
  Recorder recorder;
  pool->Start("/", "{}", recorder);
  RunAll(*pool);
  EXPECT_EQ(recorder.last.end, End::kRefused);
  EXPECT_EQ(recorder.last.status, 0);
}

TEST(RequestPool, DrivesManyStreamsAtOnce) {
  constexpr int kStreams = 100;
  std::mutex mutex;
  std::condition_variable all_here;
  int here = 0;
  ScriptedServer server([&](const ScriptedServer::Request& request) {
    std::unique_lock lock(mutex);  // nobody is answered before everybody has asked
    ++here;
    all_here.notify_all();
    all_here.wait(lock, [&] { return here == kStreams; });
    return Answer{ScriptedServer::Stream({request.body})};
  });
  auto pool = Pool(server.url());
  std::vector<Recorder> recorders(kStreams);
  for (int i = 0; i < kStreams; ++i) {
    pool->Start("/", std::to_string(i), recorders[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(pool->running(), static_cast<std::size_t>(kStreams));
  RunAll(*pool);
  for (int i = 0; i < kStreams; ++i) {
    EXPECT_EQ(recorders[static_cast<std::size_t>(i)].body, std::to_string(i));
  }
}

TEST(RequestPool, KeepsConnections) {
  ScriptedServer server(
      [](const ScriptedServer::Request&) { return Answer{ScriptedServer::Whole(200, "x")}; });
  auto pool = Pool(server.url());
  for (int i = 0; i < 5; ++i) {
    Recorder recorder;
    pool->Start("/", "{}", recorder);
    RunAll(*pool);
    EXPECT_EQ(recorder.body, "x");
  }
  EXPECT_EQ(server.num_connections(), 1);
}

TEST(RequestPool, AbortsFromTheSinkAndAllTogether) {
  ScriptedServer server([](const ScriptedServer::Request&) {
    return Answer{ScriptedServer::Stream({"x"}, false), Then::kHang};
  });
  auto pool = Pool(server.url());
  Recorder one;
  one.abort = true;
  pool->Start("/", "{}", one);
  RunAll(*pool);
  EXPECT_EQ(one.last.end, End::kAborted);

  std::vector<Recorder> several(3);
  for (Recorder& recorder : several) pool->Start("/", "{}", recorder);
  while (several[0].body.empty()) pool->Poll(SteadyNow() + std::chrono::seconds(60));
  pool->AbortAll();
  EXPECT_EQ(pool->running(), 0u);
  for (const Recorder& recorder : several) {
    EXPECT_EQ(recorder.ends, 1);
    EXPECT_EQ(recorder.last.end, End::kAborted);
  }
}

TEST(RequestPool, DestroyedInMidStreamTellsNobody) {
  ScriptedServer server([](const ScriptedServer::Request&) {
    return Answer{ScriptedServer::Stream({"x"}, false), Then::kHang};
  });
  auto pool = Pool(server.url());
  Recorder recorder;
  pool->Start("/", "{}", recorder);
  while (recorder.body.empty()) pool->Poll(SteadyNow() + std::chrono::seconds(60));
  pool.reset();
  EXPECT_EQ(recorder.ends, 0);
}

TEST(RequestPool, RefusesWhatIsNoUrl) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      RequestPool::Create({.server = {.base_url = "localhost:1"}}).status()));
}

}  // namespace
}  // namespace tandem::client
