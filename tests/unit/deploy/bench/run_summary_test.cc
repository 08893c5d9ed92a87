#include "deploy/bench/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::deploy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST(QuantilesOf, AreNearestRanks) {
  std::vector<float> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(static_cast<float>(i));
  const Quantiles q = QuantilesOf(samples);
  EXPECT_EQ(q.count, 100);
  EXPECT_EQ(q.p50, 50);
  EXPECT_EQ(q.p90, 90);
  EXPECT_EQ(q.p99, 99);
  EXPECT_EQ(q.max, 100);
  EXPECT_DOUBLE_EQ(q.mean, 50.5);
  std::vector<float> one{7}, none;
  EXPECT_EQ(QuantilesOf(one).p50, 7);
  EXPECT_EQ(QuantilesOf(one).p99, 7);
  EXPECT_EQ(QuantilesOf(none).count, 0);
}

constexpr Time kStart{};

// A stream planned at `planned_ms` with `tokens` in as many events, `gap_ms` apart.
struct Stream {
  RequestRecord record;
  std::vector<Time> times;
};
Stream MakeStream(int planned_ms, int tokens, int gap_ms) {
  StreamResult result;
  for (int i = 1; i <= tokens; ++i) {
    result.text_times.push_back(kStart + milliseconds(planned_ms + i * gap_ms));
  }
  result.end = result.text_times.back();
  result.tokens = tokens;
  result.prompt_tokens = 5;
  const Time planned = kStart + milliseconds(planned_ms);
  return {MakeRecord(result, kStart, planned, planned), result.text_times};
}

TEST(RunCollector, WarmUpIsSentAndNotCounted) {
  RunCollector collector(seconds(1), {});
  for (int planned_ms : {0, 500, 1000, 1500}) {
    const Stream stream = MakeStream(planned_ms, 10, 10);
    collector.Add(stream.record, stream.times, kStart, false);
  }
  const RunSummary summary = collector.Finish(seconds(3));
  EXPECT_EQ(summary.counted, 2);
  EXPECT_EQ(summary.succeeded(), 2);
  EXPECT_EQ(summary.ttft.count, 2);
  EXPECT_EQ(summary.itl.count, 18);
  EXPECT_NEAR(summary.itl.p99, 10, 1e-3);
  EXPECT_NEAR(summary.tpot.p50, 10, 1e-3);
  EXPECT_NEAR(summary.e2e.max, 100, 1e-3);
  EXPECT_EQ(summary.window, seconds(2));
  EXPECT_DOUBLE_EQ(summary.requests_per_s, 1);
  EXPECT_DOUBLE_EQ(summary.tokens_per_s, 10);
  EXPECT_EQ(summary.prompt_tokens, 10);
}

TEST(RunCollector, RatesAreOfWhatArrivedInTheWindow) {
  RunCollector collector({}, {});
  const Stream stream = MakeStream(500, 10, 100);  // events at 0.6 … 1.5 s
  collector.Add(stream.record, stream.times, kStart, false);
  const RunSummary summary = collector.Finish(milliseconds(1050));
  EXPECT_NEAR(summary.tokens_per_s, 5 / 1.05, 1e-6);
  EXPECT_EQ(summary.requests_per_s, 0);  // it ended later
  EXPECT_EQ(summary.tokens, 10);
  ASSERT_EQ(summary.timeline.size(), 2u);
  EXPECT_EQ(summary.timeline[0].tokens, 4);
  EXPECT_EQ(summary.timeline[1].tokens, 6);
  EXPECT_EQ(summary.timeline[1].succeeded, 1);
}

TEST(RunCollector, AnEventMayCarrySeveralTokens) {
  RunCollector collector({}, {});
  Stream stream = MakeStream(0, 10, 100);
  stream.record.tokens = 30;
  collector.Add(stream.record, stream.times, kStart, false);
  EXPECT_NEAR(collector.Finish(std::nullopt).tokens_per_s, 30, 1e-6);  // until it ended, at 1 s
}

TEST(RunCollector, CountsErrorsByKindAndKeepsThemOutOfLatencies) {
  RunCollector collector({}, {});
  const auto add = [&](Outcome outcome, int status, const std::string& difference) {
    Stream stream = MakeStream(0, 2, 10);
    stream.record.outcome = outcome;
    stream.record.http_status = status;
    stream.record.difference = difference;
    stream.record.detail = "why";
    collector.Add(stream.record, stream.times, kStart, true);
  };
  add(Outcome::kHttpStatus, 429, "");
  add(Outcome::kHttpStatus, 429, "");
  add(Outcome::kHttpStatus, 503, "");
  add(Outcome::kReset, 200, "");
  add(Outcome::kCancelled, 200, "");
  add(Outcome::kOk, 200, "text at byte 3");
  const RunSummary summary = collector.Finish(seconds(1));
  EXPECT_EQ(summary.counted, 6);
  EXPECT_EQ(summary.failed(), 4);
  EXPECT_EQ(summary.cancelled(), 1);
  EXPECT_EQ(summary.succeeded(), 1);
  EXPECT_EQ(summary.different, 1);
  EXPECT_EQ(summary.compared, 6);
  EXPECT_EQ(summary.http_statuses, (std::map<int, std::int64_t>{{429, 2}, {503, 1}}));
  EXPECT_EQ(summary.ttft.count, 1);
  EXPECT_THAT(summary.first_failure, HasSubstr("http_status: why"));
  EXPECT_THAT(summary.first_difference, HasSubstr("text at byte 3"));
}

TEST(RunCollector, GoodIsWhatMeetsTheTargets) {
  RunCollector collector({}, *GoodputTargets::Parse("ttft:50ms"));
  for (int gap_ms : {40, 50, 60}) {
    const Stream stream = MakeStream(0, 3, gap_ms);
    collector.Add(stream.record, stream.times, kStart, false);
  }
  EXPECT_EQ(collector.Finish(seconds(1)).good, 2);
  EXPECT_FALSE(RunCollector({}, {}).Finish(seconds(1)).good);
}

TEST(RunCollector, CountsFailOversThatTheServerTells) {
  RunCollector collector({}, {});
  for (auto [attempts, placements] : {std::pair{1, 1}, {3, 3}, {1, 2}}) {
    Stream stream = MakeStream(0, 3, 10);
    stream.record.attempts = attempts;
    stream.record.placements = placements;
    collector.Add(stream.record, stream.times, kStart, false);
  }
  const RunSummary summary = collector.Finish(seconds(1));
  EXPECT_EQ(summary.with_timings, 3);
  EXPECT_EQ(summary.retried, 1);
  EXPECT_EQ(summary.replaced, 1);
  EXPECT_EQ(summary.attempts_max, 3);
}

TEST(RunCollector, NothingAtAllIsNoDivision) {
  const RunSummary summary = RunCollector(seconds(1), {}).Finish(std::nullopt);
  EXPECT_EQ(summary.counted, 0);
  EXPECT_EQ(summary.tokens_per_s, 0);
}

}  // namespace
}  // namespace tandem::deploy
