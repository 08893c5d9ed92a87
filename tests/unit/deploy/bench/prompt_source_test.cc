#include "deploy/bench/prompt_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>

namespace tandem::deploy {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

class PromptFile {
 public:
  explicit PromptFile(const std::string& text)
      : path_(::testing::TempDir() + "/prompts-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl") {
    std::ofstream(path_) << text;
  }
  ~PromptFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

PromptOptions Options() { return {.seed = 5, .model = "m"}; }

std::string ErrorIn(const std::string& text, bool chat = false) {
  PromptFile file(text);
  PromptOptions options = Options();
  options.chat = chat;
  const auto source = PromptSource::FromFile(file.path(), options);
  EXPECT_TRUE(absl::IsInvalidArgument(source.status()));
  return std::string(source.status().message());
}

TEST(PromptSource, SendsTheLinesWithTheirFields) {
  PromptFile file(
      "{\"prompt\":\"hi\",\"max_tokens\":3,\"seed\":9,\"top_p\":0.5,\"expected\":\"yo\"}\n\n"
      "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}\n"
      "{\"tokens\":[1,2],\"expected_tokens\":4,\"expected_finish\":\"stop\"}\n");
  PromptOptions options = Options();
  options.output_tokens = {8, 8};
  options.temperature = 0.5;
  const PromptSource source = *PromptSource::FromFile(file.path(), options);
  EXPECT_EQ(source.num_lines(), 3);
  EXPECT_EQ(source.ItemOf(4), 1);
  EXPECT_EQ(json::parse(source.BodyOf(0)), json::parse(R"({"prompt":"hi","max_tokens":3,"seed":9,
      "top_p":0.5,"temperature":0.5,"model":"m","stream":true,
      "stream_options":{"include_usage":true}})"));
  EXPECT_EQ(source.PathOf(0), "/v1/completions");
  EXPECT_EQ(source.PathOf(1), "/v1/chat/completions");
  const json::object ids = json::parse(source.BodyOf(2)).as_object();
  EXPECT_EQ(ids.at("prompt"), json::parse("[1,2]"));
  EXPECT_EQ(ids.at("max_tokens"), 8);
  EXPECT_FALSE(ids.contains("tokens") || ids.contains("expected_tokens"));
  EXPECT_EQ(source.ExpectedOf(0).text, "yo");
  EXPECT_EQ(source.ExpectedOf(2).tokens, 4);
  EXPECT_EQ(source.ExpectedOf(2).finish, "stop");
  EXPECT_FALSE(source.ExpectedOf(1).given());
}

TEST(PromptSource, ChatTakesAPromptAsTheUsersMessage) {
  PromptFile file("{\"prompt\":\"hi\"}\n");
  PromptOptions options = Options();
  options.chat = true;
  const json::value body = json::parse(PromptSource::FromFile(file.path(), options)->BodyOf(0));
  EXPECT_EQ(body.at("messages"), json::parse(R"([{"role":"user","content":"hi"}])"));
}

TEST(PromptSource, NamesTheLineThatIsWrong) {
  EXPECT_THAT(ErrorIn("{\"prompt\":\"a\"}\n{"), HasSubstr(":2: it is no JSON"));
  EXPECT_THAT(ErrorIn("7\n"), HasSubstr(":1: it is no JSON object"));
  EXPECT_THAT(ErrorIn("{}\n"), HasSubstr("0 of \"prompt\""));
  EXPECT_THAT(ErrorIn("{\"prompt\":\"a\",\"tokens\":[1]}"), HasSubstr("2 of \"prompt\""));
  EXPECT_THAT(ErrorIn("{\"tokens\":7}"), HasSubstr("list of ids"));
  EXPECT_THAT(ErrorIn("{\"tokens\":[7]}", true), HasSubstr("--endpoint completions"));
  EXPECT_THAT(ErrorIn("{\"prompt\":\"a\",\"expected\":7}"), HasSubstr("\"expected\" must"));
  EXPECT_THAT(ErrorIn("{\"prompt\":\"a\",\"expected_tokens\":\"7\"}"), HasSubstr("whole number"));
  EXPECT_THAT(ErrorIn("\n"), HasSubstr("no line"));
  EXPECT_TRUE(absl::IsNotFound(PromptSource::FromFile("/no/such", Options()).status()));
}

TEST(PromptSource, GeneratedPromptsAreAFunctionOfTheSeed) {
  PromptOptions options = Options();
  options.prompt_tokens = {3, 9};
  options.output_tokens = {2, 5};
  const PromptSource one = PromptSource::Generated(options),
                     same = PromptSource::Generated(options);
  options.seed = 6;
  const PromptSource other = PromptSource::Generated(options);
  for (std::int64_t i = 0; i < 50; ++i) {
    const json::object body = json::parse(one.BodyOf(i)).as_object();
    const json::array& prompt = body.at("prompt").as_array();
    EXPECT_TRUE(prompt.size() >= 3 && prompt.size() <= 9);
    for (const json::value& id : prompt) EXPECT_TRUE(id.as_int64() >= 32 && id.as_int64() <= 500);
    EXPECT_TRUE(body.at("max_tokens").as_int64() >= 2 && body.at("max_tokens").as_int64() <= 5);
    EXPECT_TRUE(body.at("ignore_eos").as_bool());
    EXPECT_GE(body.at("seed").as_int64(), 0);
    EXPECT_EQ(one.BodyOf(i), same.BodyOf(i));
    EXPECT_NE(one.BodyOf(i), other.BodyOf(i));
    EXPECT_NE(one.BodyOf(i), one.BodyOf(i + 1));
  }
}

StreamResult Answered(const std::string& text, Outcome outcome = Outcome::kOk) {
  StreamResult result;
  result.text = text;
  result.outcome = outcome;
  result.tokens = 3;
  result.finish_reason = "stop";
  return result;
}

TEST(ExpectedAnswer, ShowsTheFirstDifference) {
  const ExpectedAnswer expected{.text = "one two", .tokens = 3, .finish = "stop"};
  EXPECT_EQ(expected.Difference(Answered("one two")), "");
  EXPECT_EQ(expected.Difference(Answered("one tow")),
            "text at byte 5: expected \"wo\", got \"ow\"");
  EXPECT_EQ(expected.Difference(Answered("one")), "text at byte 3: expected \" two\", got \"\"");
  EXPECT_EQ(expected.Difference(Answered("one two two")),
            "text at byte 7: expected \"\", got \" two\"");
  StreamResult counts = Answered("one two");
  counts.tokens = 4;
  EXPECT_EQ(expected.Difference(counts), "4 tokens by usage, expected 3");
  counts = Answered("one two");
  counts.finish_reason = "length";
  EXPECT_EQ(expected.Difference(counts), "finish_reason length, expected stop");
}

TEST(ExpectedAnswer, ABrokenStreamIsComparedAsFarAsItGot) {
  const ExpectedAnswer expected{.text = "one two", .tokens = 3, .finish = "stop"};
  EXPECT_EQ(expected.Difference(Answered("one", Outcome::kReset)), "");
  EXPECT_EQ(expected.Difference(Answered("", Outcome::kRefused)), "");
  EXPECT_NE(expected.Difference(Answered("oneone", Outcome::kReset)), "");
}

}  // namespace
}  // namespace tandem::deploy
