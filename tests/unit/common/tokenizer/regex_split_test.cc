#include "common/tokenizer/regex_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem::tokenizer {
namespace {

std::vector<std::string> Cut(const char* pattern, const char* text,
                             RegexSplitter::Between between = RegexSplitter::Between::kKeep) {
  auto splitter = RegexSplitter::Compile(pattern, between);
  EXPECT_TRUE(splitter.ok()) << splitter.status();
  RegexSplitter::Scratch scratch;
  std::vector<std::string> pieces;
  EXPECT_TRUE(splitter
                  ->Split(text, scratch,
                          [&](std::string_view piece) {
                            pieces.emplace_back(piece);
                            return OkStatus();
                          })
                  .ok());
  return pieces;
}

TEST(RegexSplitTest, KeepsOrDropsWhatLiesBetween) {
  EXPECT_EQ(Cut("b+", "abbac"), (std::vector<std::string>{"a", "bb", "ac"}));
  EXPECT_EQ(Cut("b+", "abbac", RegexSplitter::Between::kDrop), (std::vector<std::string>{"bb"}));
  EXPECT_EQ(Cut("b*", "aé"), (std::vector<std::string>{"aé"}));  // empty matches cut nothing
  EXPECT_EQ(Cut("b", ""), (std::vector<std::string>{}));
}

TEST(RegexSplitTest, WhiteSpaceIsUnicodes) {
  EXPECT_EQ(Cut(R"(\s)", "a\u0085b\u3000c"),
            (std::vector<std::string>{"a", "\u0085", "b", "\u3000", "c"}));
  EXPECT_EQ(Cut(R"(\s)", "a\u180Eb"), (std::vector<std::string>{"a\u180Eb"}));
}

TEST(RegexSplitTest, RefusesWhatTheEnginesReadDifferently) {
  for (const char* pattern :
       {"(*UTF)a", R"((a)\1)", "(?<n>a)",  "(?P<n>a)", "(?R)",  "a.b",         "^a",
        "a$",      R"(\w)",    R"(\b)",    R"(\C)",    R"(\X)", "[[:alpha:]]", "[a&&b]",
        "a{,3}",   "a{2}+",    "a{99999}", R"([\S])",  "[a",    R"(\Q..\E)",   "(?<=a)b",
        "(?#c)",   R"(\)",     "[]a]",     "(?"}) {
    const auto splitter = RegexSplitter::Compile(pattern, RegexSplitter::Between::kKeep);
    EXPECT_EQ(splitter.status().code(), absl::StatusCode::kInvalidArgument) << pattern;
  }
}

TEST(RegexSplitTest, ACatastrophicPatternGivesUp) {
  auto splitter = RegexSplitter::Compile("(?:a+)+[bd]", RegexSplitter::Between::kKeep);
  ASSERT_TRUE(splitter.ok());
  RegexSplitter::Scratch scratch;
  const Status status = splitter->Split(std::string(2000, 'a') + "c", scratch,
                                        [](std::string_view) { return OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tandem::tokenizer
