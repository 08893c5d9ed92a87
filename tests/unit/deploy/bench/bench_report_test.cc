#include "deploy/bench/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace tandem::deploy {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;
using ::testing::Not;

BenchReport Report() {
  BenchReport report{.model = "m", .run = {.lateness = OwnLateness(std::chrono::milliseconds(10))}};
  RunSummary& summary = report.summary;
  summary.window = std::chrono::seconds(2);
  summary.counted = 5;
  summary.outcomes[0] = 2;
  summary.outcomes[static_cast<std::size_t>(Outcome::kHttpStatus)] = 2;
  summary.outcomes[static_cast<std::size_t>(Outcome::kNoFinish)] = 1;
  summary.http_statuses[429] = 2;
  summary.ttft = {.count = 2, .mean = 1.5, .p50 = 1, .p90 = 2, .p99 = 2, .max = 2};
  summary.good = 1;
  return report;
}

TEST(BenchReport, TableShowsFiguresAndErrorsByKind) {
  const std::string table = Report().Table();
  for (const char* part : {"2 succeeded, 3 failed", "2 HTTP 429", "1 no_finish_reason", "TTFT",
                           "0.50 requests/s, 20.0 % of all"}) {
    EXPECT_THAT(table, HasSubstr(part));
  }
  EXPECT_THAT(table, Not(HasSubstr("TPOT")));  // of nothing
  EXPECT_THAT(table, Not(HasSubstr("INVALID")));
}

TEST(BenchReport, JsonHasTheWholeRun) {
  const json::object out = Report().Json({{"rate", 5}});
  EXPECT_TRUE(out.at("valid").as_bool());
  EXPECT_EQ(out.at("config"), json::parse(R"({"rate":5})"));
  const json::object& summary = out.at("summary").as_object();
  EXPECT_EQ(summary.at("failed"), 3);
  EXPECT_EQ(summary.at("errors"), json::parse(R"({"http_status":2,"no_finish_reason":1})"));
  EXPECT_EQ(summary.at("http_statuses"), json::parse(R"({"429":2})"));
  EXPECT_EQ(summary.at("ttft_ms").at("p50"), 1.0);
  EXPECT_EQ(summary.at("goodput_per_s"), 0.5);
}

TEST(BenchReport, AnInvalidRunSaysSoEverywhere) {
  BenchReport report = Report();
  report.invalid_because = {"too late"};
  EXPECT_THAT(report.Table(), HasSubstr("INVALID         too late"));
  EXPECT_FALSE(report.Json({}).at("valid").as_bool());
  EXPECT_EQ(report.Json({}).at("invalid_because"), json::parse(R"(["too late"])"));
}

TEST(RecordJson, LeavesOutNothingThatAStreamHad) {
  RequestRecord record;
  record.outcome = Outcome::kReset;
  record.item = 4;
  record.first = std::chrono::milliseconds(250);
  const json::object out = RecordJson(record);
  EXPECT_EQ(out.at("outcome"), "reset");
  EXPECT_EQ(out.at("line"), 5);
  EXPECT_EQ(out.at("first_s"), 0.25);
  EXPECT_TRUE(out.at("last_s").is_null());
}

}  // namespace
}  // namespace tandem::deploy
