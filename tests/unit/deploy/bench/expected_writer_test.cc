#include "deploy/bench/expected_writer.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace tandem::deploy {
namespace {

PromptSource Prompts() {
  return PromptSource::Generated(
      {.prompt_tokens = {3, 5}, .output_tokens = {2, 4}, .temperature = 0.5, .model = "m"});
}

void AddAnswer(ExpectedWriter& writer, std::int64_t item, const std::string& text,
               Outcome outcome = Outcome::kOk) {
  StreamResult result;
  result.text = text;
  result.finish_reason = "stop";
  result.tokens = 2;
  result.outcome = outcome;
  RequestRecord record = MakeRecord(result, Time{}, Time{}, Time{});
  record.item = item;
  writer.Add(record, result);
}

class ExpectedWriterTest : public ::testing::Test {
 protected:
  ~ExpectedWriterTest() override { std::filesystem::remove(path_); }
  std::string path_ = ::testing::TempDir() + "/expected-" +
                      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  ExpectedWriter writer_;
};

TEST_F(ExpectedWriterTest, ALaterRunSendsTheSameAndExpectsTheAnswers) {
  AddAnswer(writer_, 1, "two");
  AddAnswer(writer_, 0, "one\n\"");
  AddAnswer(writer_, 1, "two");  // again the same
  ASSERT_TRUE(writer_.Write(Prompts(), path_).ok());
  const PromptSource later = *PromptSource::FromFile(path_, {.seed = 77, .model = "m"});
  ASSERT_EQ(later.num_lines(), 2);
  for (std::int64_t item : {0, 1}) EXPECT_EQ(later.LineOf(item), Prompts().LineOf(item));
  EXPECT_EQ(later.ExpectedOf(0).text, "one\n\"");
  EXPECT_EQ(later.ExpectedOf(1).text, "two");
  EXPECT_EQ(later.ExpectedOf(1).tokens, 2);
  EXPECT_EQ(later.ExpectedOf(1).finish, "stop");
}

TEST_F(ExpectedWriterTest, ADisturbedRunIsNotWritten) {
  AddAnswer(writer_, 0, "one");
  AddAnswer(writer_, 1, "tw", Outcome::kReset);
  EXPECT_TRUE(absl::IsFailedPrecondition(writer_.Write(Prompts(), path_)));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ExpectedWriterTest, TwoAnswersToOneLineAreNotWritten) {
  AddAnswer(writer_, 0, "one");
  AddAnswer(writer_, 0, "eno");
  EXPECT_TRUE(absl::IsFailedPrecondition(writer_.Write(Prompts(), path_)));
}

TEST_F(ExpectedWriterTest, TellsWhenTheFileCannotBeWritten) {
  AddAnswer(writer_, 0, "one");
  EXPECT_TRUE(absl::IsUnavailable(writer_.Write(Prompts(), "/no/such/folder/file")));
}

}  // namespace
}  // namespace tandem::deploy
