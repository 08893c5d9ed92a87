#include "deploy/bench/bench_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::deploy {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const Status& status) {
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  return std::string(status.message());
}

BenchOptions Generated() {
  BenchOptions options;
  options.prompt_tokens = {4, 8};
  options.output_tokens = {2, 2};
  return options;
}

TEST(BenchOptions, NamesWhatIsMissingOrContradicts) {
  BenchOptions options;
  EXPECT_THAT(ErrorOf(options.Validate()), HasSubstr("nothing to send"));
  options = Generated();
  EXPECT_TRUE(options.Validate().ok());
  options.prompts = "file";
  EXPECT_THAT(ErrorOf(options.Validate()), HasSubstr("--prompts file"));
  options = Generated();
  options.rate = 5;
  options.concurrency = 3;
  EXPECT_THAT(ErrorOf(options.Validate()), HasSubstr("--rate 5"));
  options = Generated();
  options.output_tokens = {};
  EXPECT_THAT(ErrorOf(options.Validate()), HasSubstr("--output-tokens"));
  options = Generated();
  options.endpoint = "chat";
  EXPECT_THAT(ErrorOf(options.Validate()), HasSubstr("--endpoint completions"));
  options = Generated();
  options.goodput = "ttft:5";
  EXPECT_TRUE(absl::IsInvalidArgument(options.Validate()));
}

TEST(BenchOptions, EndsSomehow) {
  BenchOptions options = Generated();
  const PromptSource prompts = *options.MakePrompts("m");
  EXPECT_EQ(options.MakePlan(prompts).requests, 100);
  options.duration = std::chrono::seconds(3);
  EXPECT_FALSE(options.MakePlan(prompts).requests);
  EXPECT_EQ(options.MakePlan(prompts).duration, std::chrono::seconds(3));
}

TEST(BenchOptions, DoesNotReportTheKey) {
  BenchOptions options = Generated();
  options.api_key = "secret";
  for (const auto& [name, value] : options.ToJson()) {
    EXPECT_NE(name, "api_key");
    EXPECT_FALSE(value.is_string() && value.get_string() == "secret");
  }
}

TEST(LengthRange, ReadsNumbersAndRanges) {
  LengthRange range;
  const auto read = [&](const std::string& text) { return Lengths(&range, 1, 100).parse(text); };
  ASSERT_TRUE(read("7").ok());
  EXPECT_EQ(range.ToString(), "7");
  ASSERT_TRUE(read("3-9").ok());
  EXPECT_EQ(range.ToString(), "3-9");
  for (const char* bad : {"", "0", "101", "9-3", "3-", "-3", "a", "3-9x", "3--9"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(read(bad))) << bad;
  }
  EXPECT_EQ(range.ToString(), "3-9");
}

TEST(LengthRange, DrawsAllOfItAndNothingElse) {
  SplitMix64 random(1);
  int seen[3] = {};
  for (int i = 0; i < 300; ++i) {
    const std::int64_t drawn = LengthRange{5, 7}.Draw(random);
    ASSERT_TRUE(drawn >= 5 && drawn <= 7);
    ++seen[drawn - 5];
  }
  for (int count : seen) EXPECT_GT(count, 50);
}

TEST(GoodputTargets, ReadsPairsAndNamesWhatIsWrong) {
  EXPECT_FALSE(GoodputTargets::Parse("")->given());
  EXPECT_EQ(GoodputTargets::Parse("ttft:0.5s,tpot:50ms,e2e:2s")->ToString(),
            "ttft:500ms,tpot:50ms,e2e:2000ms");
  for (const char* bad : {"ttft", "tpt:5ms", "ttft:5", "ttft:x", ",ttft:5ms"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(GoodputTargets::Parse(bad).status())) << bad;
  }
}

TEST(GoodputTargets, AllMustBeMet) {
  RequestRecord record;
  record.planned = std::chrono::milliseconds(100);
  record.first = std::chrono::milliseconds(400);  // 300 ms
  record.last = std::chrono::milliseconds(600);
  record.end = std::chrono::milliseconds(700);
  record.tokens = 5;  // 50 ms each
  EXPECT_TRUE(GoodputTargets::Parse("ttft:300ms,tpot:50ms,e2e:600ms")->MetBy(record));
  EXPECT_FALSE(GoodputTargets::Parse("ttft:299ms")->MetBy(record));
  EXPECT_FALSE(GoodputTargets::Parse("ttft:300ms,tpot:49ms")->MetBy(record));
  EXPECT_FALSE(GoodputTargets::Parse("e2e:599ms")->MetBy(record));
}

}  // namespace
}  // namespace tandem::deploy
