#include "deploy/bench/load_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "tests/testing/scripted_server.h"

namespace tandem::deploy {
namespace {

using testing::kDoneEvent;
using testing::ScriptedServer;
using testing::TextEvent;
using testing::UsageEvent;
using Answer = ScriptedServer::Answer;
using Then = ScriptedServer::Then;
using ::testing::IsEmpty;
using ::testing::Not;

Answer GoodAnswer() {
  return {ScriptedServer::Stream(
      {TextEvent("hi"), TextEvent("", "length"), UsageEvent(3, 1), kDoneEvent})};
}

// A run against a scripted server.
class LoadRunTest : public ::testing::Test {
 protected:
  LoadRun::Result Run(const LoadPlan& plan, ScriptedServer::Script script,
                      Duration timeout = std::chrono::minutes(2)) {
    ScriptedServer server(std::move(script));
    auto pool = *client::RequestPool::Create(
        {.server = {.base_url = server.url()}, .request_timeout = timeout});
    const PromptSource prompts =
        PromptSource::Generated({.prompt_tokens = {2, 4}, .output_tokens = {1, 1}, .model = "m"});
    LoadRun::Callbacks callbacks;
    callbacks.on_sent = on_sent_;
    callbacks.on_record = [this](const RequestRecord& record, const StreamResult&) {
      records_.push_back(record);
      if (on_record_) on_record_();
    };
    return LoadRun(plan, prompts, *pool, std::move(callbacks)).Run(interrupted_);
  }
  std::map<Outcome, int> Outcomes() const {
    std::map<Outcome, int> outcomes;
    for (const RequestRecord& record : records_) outcomes[record.outcome]++;
    return outcomes;
  }

  std::atomic<bool> interrupted_{false};
  std::function<void(Duration)> on_sent_;
  std::function<void()> on_record_;
  std::vector<RequestRecord> records_;
};

TEST_F(LoadRunTest, AClosedLoopKeepsItsNumberOfStreams) {
  std::mutex mutex;
  std::condition_variable changed;
  int here = 0, most = 0, total = 0;
  const auto script = [&](const ScriptedServer::Request&) {
    std::unique_lock lock(mutex);
    most = std::max(most, ++here);
    ++total;
    changed.notify_all();
    // The first four wait for one another: less would hang, and more shows in `most`.
    changed.wait(lock, [&] { return total >= 4; });
    --here;
    return GoodAnswer();
  };
  const auto result = Run({.concurrency = 4, .requests = 20}, script);
  EXPECT_EQ(Outcomes(), (std::map<Outcome, int>{{Outcome::kOk, 20}}));
  EXPECT_EQ(result.in_flight_max, 4);
  EXPECT_LE(most, 4);
  EXPECT_FALSE(result.window_end);
}

TEST_F(LoadRunTest, AnOpenLoopSendsWhateverTheServerDoes) {
  std::mutex mutex;
  std::condition_variable changed;
  int here = 0;
  const auto script = [&](const ScriptedServer::Request&) {
    std::unique_lock lock(mutex);  // nobody is answered before all have come
    ++here;
    changed.notify_all();
    changed.wait(lock, [&] { return here == 30; });
    return GoodAnswer();
  };
  const auto result = Run({.rate_per_s = 3000, .requests = 30, .seed = 3}, script);
  EXPECT_EQ(Outcomes(), (std::map<Outcome, int>{{Outcome::kOk, 30}}));
  EXPECT_EQ(result.in_flight_max, 30);
  std::sort(records_.begin(), records_.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  Arrivals arrivals(Arrivals::Kind::kPoisson, 3000, 3);
  for (const RequestRecord& record : records_) {
    EXPECT_EQ(record.planned, arrivals.Next());
    EXPECT_GE(record.sent, record.planned);
  }
}

TEST_F(LoadRunTest, ErrorsAreToldByKind) {
  std::atomic<int> number{0};
  const std::string begun = ScriptedServer::Stream({TextEvent("h")}, false);
  const auto script = [&](const ScriptedServer::Request&) -> Answer {
    switch (number++) {
      case 0:
        return {ScriptedServer::Whole(429, R"({"error":{"message":"full"}})")};
      case 1:
        return {begun, Then::kReset};
      case 2:
        return {begun, Then::kClose};
      case 3:
        return {ScriptedServer::Stream(
            {TextEvent("h"), "data: {\"error\":{\"message\":\"x\"}}\n\n", kDoneEvent})};
      case 4:
        return {ScriptedServer::Stream({TextEvent("h"), kDoneEvent})};
      case 5:
        return {ScriptedServer::Stream(
            {TextEvent("h", "stop"), "data: {\"error\":{\"message\":\"x\"}}\n\n", kDoneEvent})};
      default:
        return GoodAnswer();
    }
  };
  Run({.concurrency = 1, .requests = 7}, script);
  EXPECT_EQ(Outcomes(), (std::map<Outcome, int>{{Outcome::kHttpStatus, 1},
                                                {Outcome::kReset, 1},
                                                {Outcome::kEndedEarly, 1},
                                                {Outcome::kErrorEvent, 1},
                                                {Outcome::kNoFinish, 1},
                                                {Outcome::kAfterFinish, 1},
                                                {Outcome::kOk, 1}}));
}

TEST_F(LoadRunTest, AStalledServerIsATimeout) {
  Run(
      {.concurrency = 2, .requests = 3},
      [](const ScriptedServer::Request&) {
        return Answer{ScriptedServer::Stream({TextEvent("h")}, false), Then::kHang};
      },
      std::chrono::milliseconds(50));
  EXPECT_EQ(Outcomes(), (std::map<Outcome, int>{{Outcome::kTimeout, 3}}));
}

TEST_F(LoadRunTest, ADurationEndsTheSendingAndWhatRunsGoesOn) {
  const auto result = Run({.rate_per_s = 200,
                           .arrival = Arrivals::Kind::kConstant,
                           .duration = std::chrono::milliseconds(100),
                           .warmup = std::chrono::milliseconds(50)},
                          [](const ScriptedServer::Request&) { return GoodAnswer(); });
  EXPECT_EQ(records_.size(), 30u);  // 150 ms, every 5 ms
  EXPECT_EQ(result.window_end, std::chrono::milliseconds(150));
}

TEST_F(LoadRunTest, AnInterruptCancelsWhatRuns) {
  int sent = 0;
  on_sent_ = [&](Duration) { interrupted_ = ++sent == 3; };
  const auto result = Run({.concurrency = 3, .requests = 1000}, [](const ScriptedServer::Request&) {
    return Answer{ScriptedServer::Stream({TextEvent("h")}, false), Then::kHang};
  });
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(Outcomes(), (std::map<Outcome, int>{{Outcome::kCancelled, 3}}));
}

TEST_F(LoadRunTest, SaysWhenItWasTooLateItself) {
  on_sent_ = [](Duration) {  // the thread is busy with something else
    const Time until = SteadyNow() + std::chrono::milliseconds(30);
    while (SteadyNow() < until) {
    }
  };
  const auto result = Run({.rate_per_s = 1000, .arrival = Arrivals::Kind::kConstant, .requests = 5},
                          [](const ScriptedServer::Request&) { return GoodAnswer(); });
  EXPECT_GE(result.lateness.late_sends(), 4);
  EXPECT_GE(result.lateness.longest_stall(), std::chrono::milliseconds(10));
  EXPECT_THAT(result.lateness.Faults(result.elapsed), Not(IsEmpty()));
  ASSERT_EQ(records_.size(), 5u);
  for (const RequestRecord& record : records_) EXPECT_LE(record.planned, record.sent);
}

TEST_F(LoadRunTest, GivesUpWhatIsFarTooLate) {
  bool first = true;
  on_sent_ = [&](Duration) {
    if (!std::exchange(first, false)) return;
    const Time until = SteadyNow() + std::chrono::milliseconds(1200);
    while (SteadyNow() < until) {
    }
  };
  const auto result = Run({.rate_per_s = 100, .arrival = Arrivals::Kind::kConstant, .requests = 5},
                          [](const ScriptedServer::Request&) { return GoodAnswer(); });
  EXPECT_EQ(result.lateness.not_sent(), 4);
  EXPECT_THAT(result.lateness.Faults(result.elapsed), Not(IsEmpty()));
}

TEST_F(LoadRunTest, SaysWhenItCouldNotSend) {
  const auto result = Run(
      {.rate_per_s = 1000,
       .arrival = Arrivals::Kind::kConstant,
       .requests = 10,
       .max_in_flight = 1},
      [](const ScriptedServer::Request&) {
        return Answer{ScriptedServer::Stream({TextEvent("h")}, false), Then::kHang};
      },
      std::chrono::seconds(1));
  EXPECT_EQ(result.lateness.sends(), 1);
  EXPECT_EQ(result.lateness.not_sent(), 9);
  EXPECT_THAT(result.lateness.Faults(result.elapsed), Not(IsEmpty()));
}

}  // namespace
}  // namespace tandem::deploy
