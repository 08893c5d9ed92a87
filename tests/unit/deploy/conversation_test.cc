#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/chat/chat.h"

namespace tandem::deploy {
namespace {

using Step = Conversation::Step;
using ::testing::HasSubstr;

TEST(Conversation, KeepsWhatBothSaid) {
  Conversation c("Be brief.");
  EXPECT_EQ(c.TakeLine("Hello"), Step::kSend);
  c.TakeAnswer("Hi.");
  EXPECT_EQ(c.TakeLine("Again"), Step::kSend);
  ASSERT_EQ(c.messages().size(), 4u);
  EXPECT_EQ(c.messages()[0].role, "system");
  EXPECT_EQ(c.messages()[2].content, "Hi.");
  EXPECT_EQ(c.messages()[3].content, "Again");
}

TEST(Conversation, JoinsSeveralLines) {
  Conversation c("");
  EXPECT_EQ(c.TakeLine("one\\"), Step::kMore);
  EXPECT_EQ(c.TakeLine("two"), Step::kSend);
  EXPECT_EQ(c.messages().back().content, "one\ntwo");
  EXPECT_EQ(c.TakeLine("\"\"\""), Step::kMore);
  EXPECT_EQ(c.TakeLine("/quit is text here"), Step::kMore);
  EXPECT_EQ(c.TakeLine(""), Step::kMore);
  EXPECT_EQ(c.TakeLine("end"), Step::kMore);
  EXPECT_EQ(c.TakeLine("\"\"\""), Step::kSend);
  EXPECT_EQ(c.messages().back().content, "/quit is text here\n\nend");
}

TEST(Conversation, EmptyLineSendsNothing) {
  Conversation c("");
  EXPECT_EQ(c.TakeLine(""), Step::kMore);
  EXPECT_TRUE(c.messages().empty());
}

TEST(Conversation, QuestionWithoutAnswerIsTakenBack) {
  Conversation c("");
  c.TakeLine("Hello");
  c.TakeAnswer("");
  EXPECT_TRUE(c.messages().empty());
}

TEST(Conversation, CommandsActAndUnknownOnesAreNamed) {
  Conversation c("Old.");
  c.TakeLine("Hello");
  EXPECT_EQ(c.TakeLine("/system New one."), Step::kCommand);
  ASSERT_EQ(c.messages().size(), 1u);
  EXPECT_EQ(c.messages()[0].content, "New one.");
  EXPECT_EQ(c.TakeLine("/rest"), Step::kCommand);
  EXPECT_THAT(c.output(), HasSubstr("no command /rest"));
  EXPECT_EQ(c.TakeLine("/quit"), Step::kQuit);
}

}  // namespace
}  // namespace tandem::deploy
