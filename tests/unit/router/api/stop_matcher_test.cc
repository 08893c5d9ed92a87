#include "router/api/stop_matcher.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/random.h"

namespace tandem::router {
namespace {

struct Result {
  std::string text;
  bool matched;
  bool operator==(const Result&) const = default;
};

// The whole text at once, by trying every end: the rule itself.
Result Reference(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

Result InPieces(const std::vector<std::string>& stops, const std::string& text,
                SplitMix64& random) {
  StopMatcher matcher(stops);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t n = std::min<std::size_t>(text.size() - at, 1 + random.Below(5));
    matcher.Append(std::string_view(text).substr(at, n), out);
    at += n;
  }
  matcher.Flush(out);
  return {out, matcher.matched()};
}

TEST(StopMatcherTest, RandomSplitsEqualTheWholeText) {
  SplitMix64 random(5);
  int matches = 0;
  for (int round = 0; round < 20000; ++round) {
    auto word = [&](std::uint64_t longest) {
      std::string out;
      for (std::uint64_t n = 1 + random.Below(longest); n > 0; --n) {
        out += static_cast<char>('a' + random.Below(2));
      }
      return out;
    };
    std::vector<std::string> stops;
    for (std::uint64_t n = 1 + random.Below(4); n > 0; --n) stops.push_back(word(7));
    const std::string text = word(30);
    Result expected = Reference(stops, text);
    EXPECT_EQ(InPieces(stops, text, random), expected) << text;
    matches += expected.matched;
  }
  EXPECT_GT(matches, 1000);
  EXPECT_LT(matches, 19000);
}

TEST(StopMatcherTest, HoldsBackOnlyWhatMayBecomeAMatch) {
  StopMatcher matcher({"\n\nUser:"});
  std::string out;
  matcher.Append("Hello\n", out);
  EXPECT_EQ(out, "Hello");
  matcher.Append("\nUse", out);
  EXPECT_EQ(out, "Hello");
  matcher.Append("d", out);
  EXPECT_EQ(out, "Hello\n\nUsed");
  matcher.Append("\n\nUser: hi", out);
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(out, "Hello\n\nUsed");
  matcher.Append("more", out);
  matcher.Flush(out);
  EXPECT_EQ(out, "Hello\n\nUsed");
}

TEST(StopMatcherTest, FlushGivesWhatWasHeldBack) {
  StopMatcher matcher({"STOP"});
  std::string out;
  matcher.Append("do not ST", out);
  EXPECT_EQ(out, "do not ");
  matcher.Flush(out);
  EXPECT_EQ(out, "do not ST");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcherTest, WithoutStopsTextPasses) {
  StopMatcher matcher({});
  std::string out;
  matcher.Append("abc", out);
  EXPECT_EQ(out, "abc");
}

}  // namespace
}  // namespace tandem::router
