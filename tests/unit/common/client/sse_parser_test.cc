#include "common/client/sse_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/random.h"

namespace tandem::client {
namespace {

std::vector<std::string> Parse(const std::vector<std::string>& pieces) {
  SseParser parser;
  std::vector<std::string> events;
  for (const std::string& piece : pieces) {
    EXPECT_TRUE(parser.Feed(piece, [&](std::string_view d) { events.emplace_back(d); }).ok());
  }
  return events;
}

constexpr char kStream[] =
    "\xEF\xBB\xBF"
    "data: {\"a\":1}\n\n: comment\nevent: x\ndata:two\r\ndata: lines\r\n\r\n"
    "id: 7\n\ndata\n\ndata: [DONE]\r\r";

TEST(SseParser, JoinsDataLinesAndSkipsEverythingElse) {
  EXPECT_EQ(Parse({kStream}), (std::vector<std::string>{"{\"a\":1}", "two\nlines", "", "[DONE]"}));
}

TEST(SseParser, IsIndependentOfHowTheBytesAreSplit) {
  const std::string stream(kStream);
  const std::vector<std::string> whole = Parse({stream});
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SplitMix64 random(seed);
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t n = 1 + random.Below(6);
      pieces.push_back(stream.substr(at, n));
      at += n;
    }
    EXPECT_EQ(Parse(pieces), whole) << "seed " << seed;
  }
}

TEST(SseParser, RefusesAnEndlessEvent) {
  SseParser parser;
  const std::string megabyte(1 << 20, 'x');
  Status status;
  for (int i = 0; i < 17 && status.ok(); ++i)
    status = parser.Feed(megabyte, [](std::string_view) {});
  EXPECT_TRUE(absl::IsResourceExhausted(status));
}

}  // namespace
}  // namespace tandem::client
